// The signature of a key in sqf and dsqf, and the probability that two keys share one.
//
// Paper: Dutta, Narang and Bera, "Streaming Quotient Filter" (PVLDB 2013), section 3. A key's
// remainder has r random bits. The signature is its r' highest bits and its weight, the number of
// ones in the whole remainder: r' + ceil(log2(r + 1)) bits.
//
// A signature is stored as its r' bits above r - weight. Zero would be r' zero bits and weight r,
// which no remainder has: if all bits are set, the highest are not 0. So zero means an empty bucket
// and costs no bit.
//
// The paper multiplies the probabilities that the r' bits are equal and that the weights are, 2^-r'
// / sqrt(pi r), as if the weight did not count the r' bits too. It does, so only the other n = r -
// r' bits matter: two keys share a signature with probability 2^-r' C(2n, n) / 4^n, about 2^-r' /
// sqrt(pi n). That is 1.4 times the paper's value at its r' = r / 2.

#ifndef STREAMDEDUP_CORE_METHODS_QUOTIENT_SIGNATURE_HPP_
#define STREAMDEDUP_CORE_METHODS_QUOTIENT_SIGNATURE_HPP_

#include <bit>
#include <cmath>
#include <cstdint>

#include "../bytes.hpp"
#include "../method.hpp"

namespace dedup::quotient_signature {

inline constexpr unsigned kMaxR = 63;
inline constexpr unsigned kMaxRPrime = 48;  // with 6 bits of weight it is still one field

// Counts the ones of a word. It is inlined because a compiler that may not use the machine's own
// instruction calls a function.
inline unsigned Ones(uint64_t word) noexcept {
  word -= word >> 1 & 0x5555555555555555u;
  word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<unsigned>(word * 0x0101010101010101u >> 56);
}

struct Form {
  unsigned r = 0;
  unsigned r_prime = 0;

  unsigned weight_bits() const noexcept { return static_cast<unsigned>(std::bit_width(r)); }
  unsigned bits() const noexcept { return r_prime + weight_bits(); }
  unsigned others() const noexcept { return r - r_prime; }
  bool valid() const noexcept {
    return r >= 1 && r <= kMaxR && r_prime >= 1 && r_prime <= kMaxRPrime && r_prime <= r;
  }

  // Returns the stored signature of a key, never 0. It comes from bits that are independent of
  // those that choose the row.
  uint64_t Code(uint64_t hash) const noexcept {
    const uint64_t remainder = Derived(hash, 0) & LowMask(r);
    return remainder >> (r - r_prime) << weight_bits() | (r - Ones(remainder));
  }
};

// Probabilities of the signatures: 2^r' signatures have each number of ones among the other bits.
class Chances {
 public:
  explicit Chances(const Form& form) noexcept
      : form_(form), many_(std::ldexp(1.0, static_cast<int>(form.r_prime))) {
    const unsigned n = form.others();
    double p = std::ldexp(1.0, -static_cast<int>(form.r));
    for (unsigned ones = 0; ones <= n; ++ones) {
      p_[ones] = p;
      p = p * (n - ones) / (ones + 1);
    }
  }

  double signatures() const noexcept { return many_ * (form_.others() + 1); }

  // Returns the sum of term(p) over all signatures, where p is the probability of a signature.
  template <typename Term>
  double Sum(Term term) const noexcept {
    double sum = 0;
    for (unsigned ones = 0; ones <= form_.others(); ++ones) sum += many_ * term(p_[ones]);
    return sum;
  }

  // Returns the probability of a signature. Returns 0 for bits that no key has.
  double Of(uint64_t code) const noexcept {
    const unsigned zeros = static_cast<unsigned>(code & LowMask(form_.weight_bits()));
    const unsigned top = Ones(code >> form_.weight_bits());
    if (zeros > form_.r || form_.r - zeros < top) return 0;
    const unsigned ones = form_.r - zeros - top;
    return ones <= form_.others() ? p_[ones] : 0;
  }

  // Computes miss[d], d = 0 to `most`: the probability that a new key is not among the d signatures
  // of a row that has had d places for very long, where each new signature replaces a random one.
  // Such a row is a cache with random replacement. Its content is a set A with probability in
  // proportion to the product of the probabilities of its signatures (Gelenbe, "A Unified Approach
  // to the Evaluation of a Class of Replacement Algorithms", 1973). So the miss is (d + 1) e(d + 1)
  // / e(d), where e are the elementary symmetric sums. If all S signatures have the same
  // probability, it is 1 - d / S.
  void MissOfHeld(unsigned most, double* miss) const noexcept {
    double sums[kMostHeld + 2] = {1};
    for (unsigned ones = 0; ones <= form_.others(); ++ones) {
      double power[kMostHeld + 2] = {1};  // coefficients of (1 + p x)^many
      for (unsigned i = 1; i <= most + 1; ++i) {
        const double left = many_ - (i - 1);
        power[i] = left > 0 ? power[i - 1] * left * p_[ones] / i : 0;
      }
      for (unsigned d = most + 1; d > 0; --d) {
        for (unsigned i = 1; i <= d; ++i) sums[d] += sums[d - i] * power[i];
      }
    }
    for (unsigned d = 0; d <= most; ++d) {
      miss[d] = sums[d] > 0 && d < signatures() ? (d + 1) * sums[d + 1] / sums[d] : 0;
      if (miss[d] > 1) miss[d] = 1;
    }
  }
  static constexpr unsigned kMostHeld = 32;

 private:
  Form form_;
  double many_;
  double p_[kMaxR + 1];
};

// ---- r and r' that were not given ------------------------------------------------

// Returns whether r and r', if both were given, are consistent.
inline bool Consistent(const Options& options, int r_option, int r_prime_option) noexcept {
  return !options.given[r_option] || !options.given[r_prime_option] ||
         options.value[r_prime_option] <= options.value[r_option];
}

// Returns the smallest signature with which `rate(form)` is at most `asked`. Of several such
// signatures, returns the one with the lowest rate. An r or r' that was given is not changed,
// whatever the rate then is. If no signature reaches the rate, returns the one with the lowest.
//
// The paper's r' = r / 2 is not used: with w bits of weight, r can be as large as 2^w - 1, and more
// bits outside of r' make the weight distinguish more keys.
template <typename Rate>
inline Form SmallestForm(const Options& options, int r_option, int r_prime_option, double asked,
                         Rate rate) noexcept {
  Form best;
  double best_rate = 2;
  const auto try_form = [&](const Form& form) {
    const double got = rate(form);
    const bool good = got <= asked, best_good = best_rate <= asked;
    const bool better = good && best_good && form.bits() != best.bits() ? form.bits() < best.bits()
                                                                        : got < best_rate;
    if (good != best_good ? good : better) {
      best = form;
      best_rate = got;
    }
    return good;
  };
  for (unsigned width = 1; width <= 6; ++width) {
    Form form;
    form.r = static_cast<unsigned>(LowMask(width));
    if (options.given[r_option]) {
      form.r = static_cast<unsigned>(options.value[r_option]);
      width = 6;
    }
    if (options.given[r_prime_option]) {
      form.r_prime = static_cast<unsigned>(options.value[r_prime_option]);
      if (form.r_prime <= form.r) try_form(form);
      continue;
    }
    const unsigned most = form.r < kMaxRPrime ? form.r : kMaxRPrime;
    for (form.r_prime = 1; form.r_prime <= most; ++form.r_prime) {
      if (try_form(form)) break;
    }
  }
  return best;
}

// Returns Shape::fpr: the requested rate, or the filter's own rate, if r and r' were given, or if
// the given one does not allow the requested rate.
inline double FprOf(const Options& options, int r_option, int r_prime_option, double asked,
                    double rate) noexcept {
  const bool both = options.given[r_option] && options.given[r_prime_option];
  return both || rate > asked ? FprFrom(rate) : asked;
}

}  // namespace dedup::quotient_signature

#endif  // STREAMDEDUP_CORE_METHODS_QUOTIENT_SIGNATURE_HPP_
