// The table of functions of the method qqht. The functions are in qqht.hpp.

#include "qqht.hpp"

namespace dedup::qqht {

constinit const Method kMethod = qht_row::MethodOf<kRule>(
    "qqht", 13,
    "none: the last k new keys of each row, of the last n distinct keys 19 % are missed with "
    "k = 4, 27 % with k = 2, 37 % with k = 1",
    "by age: two full filters keep the younger half of each row");

}  // namespace dedup::qqht
