// What the unit tests share, by subject.

#ifndef STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_
#define STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_

#include "support/body.hpp"
#include "support/filter.hpp"
#include "support/methods.hpp"
#include "support/random.hpp"
#include "support/streams.hpp"

#endif  // STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_
