#ifndef STREAMDEDUP_QUERY_APPROXIMATE_HPP
#define STREAMDEDUP_QUERY_APPROXIMATE_HPP

#include "pg/pg.hpp"

extern bool PlanningApproximate(void);
extern void InitApproximate(void);

#endif
