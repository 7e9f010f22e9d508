// The methods' code, compiled once for all that is built with DEDUP_METHODS_ELSEWHERE.

#define DEDUP_METHODS_HERE
#include "registry.hpp"
