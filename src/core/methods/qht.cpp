// The table of functions of the method qht. The functions are in qht.hpp.

#include "qht.hpp"

namespace dedup::qht {

constinit const Method kMethod = qht_row::MethodOf<kRule>(
    "qht", 11,
    "none: random keys give way, of the last n distinct keys up to 37 % are answered new",
    "at random: two full filters keep half of the keys of each",
    "few bytes and fast, if random keys may be dropped");

}  // namespace dedup::qht
