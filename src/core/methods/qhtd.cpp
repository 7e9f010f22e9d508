// The table of functions of the method qhtd. The functions are in qhtd.hpp.

#include "qhtd.hpp"

namespace dedup::qhtd {

constinit const Method kMethod = qht_row::MethodOf<kRule>(
    "qhtd", 12,
    "none: random keys give way, of the last n distinct keys up to 37 % are answered new",
    "at random: two full filters keep half of the keys of each");

}  // namespace dedup::qhtd
