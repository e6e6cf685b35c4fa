#include "layers/initial_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

namespace millrace::layers {
namespace {

std::array<std::uint32_t, 2> halves(std::uint64_t value) noexcept {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

/// FNV-1a. It must never change, since every initial value depends on it.
std::uint64_t name_hash(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

/// log x for a normal double, from log x = 2 artanh((m−1)/(m+1)) + e·log 2 with m in [√½, √2): the series needs 12 terms for the last bit.
double natural_log(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return 2.0 * s * series + exponent * 0.6931471805599453;
}

double probability(std::uint32_t word) noexcept { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

constexpr double below_cut = 0.022750131948179207;  // probability of a normal value below −2 deviations

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) noexcept {
  double result = 0;
  for (std::size_t i = N; i-- > 0;) result = result * x + coefficients[i];
  return result;
}

// The tables of AS 241's PPND16, lowest power first: center for |p − ½| <= 0.425, tail for r = √(−log p) <= 5, beyond which no 32-bit word
// lies.
constexpr std::array<double, 8> center_numerator = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                                    1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                                    3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr std::array<double, 8> center_denominator = {1.0,
                                                      4.2313330701600911252e1,
                                                      6.8718700749205790830e2,
                                                      5.3941960214247511077e3,
                                                      2.1213794301586595867e4,
                                                      3.9307895800092710610e4,
                                                      2.8729085735721942674e4,
                                                      5.2264952788528545610e3};
constexpr std::array<double, 8> tail_numerator = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                                  3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> tail_denominator = {1.0,
                                                    2.05319162663775882187e0,
                                                    1.67638483018380384940e0,
                                                    6.89767334985100004550e-1,
                                                    1.48103976427480074590e-1,
                                                    1.51986665636164571966e-2,
                                                    5.47593808499534494600e-4,
                                                    1.05075007164441684324e-9};

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const auto first = halves(0xD2511F53ULL * counter[0]);
    const auto second = halves(0xCD9E8D57ULL * counter[2]);
    counter = {second[1] ^ counter[1] ^ key[0], second[0], first[1] ^ counter[3] ^ key[1], first[0]};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

double normal_quantile(double p) noexcept {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(center_numerator, r) / polynomial(center_denominator, r);
  }
  const double tail = q < 0 ? p : 1.0 - p;
  const double r = std::sqrt(-natural_log(tail)) - 1.6;
  const double magnitude = polynomial(tail_numerator, r) / polynomial(tail_denominator, r);
  return q < 0 ? -magnitude : magnitude;
}

double standard_normal(std::uint32_t word) noexcept { return normal_quantile(probability(word)); }

void initial_values(const ParameterSpec& spec, double range, std::uint64_t seed, std::int64_t first, std::span<float> values) {
  const InitialKind kind = spec.initial.kind;
  if (kind == InitialKind::ones || kind == InitialKind::zeros) {
    std::fill(values.begin(), values.end(), kind == InitialKind::ones ? 1.0F : 0.0F);
    return;
  }
  if (kind == InitialKind::constant) {
    std::fill(values.begin(), values.end(), spec.initial.value);
    return;
  }
  const double deviation = spec.initial.deviation > 0 ? spec.initial.deviation : range;
  const auto name = halves(name_hash(spec.name));
  if (spec.experts.first > 0) first += spec.experts.first * (spec.shape.elements() / spec.shape[0]);
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(first) + i;
    if (i == 0 || element % 4 == 0) {
      const auto block = halves(element / 4);
      words = philox({block[0], block[1], name[0], name[1]}, halves(seed));
    }
    const double p = probability(words[element % 4]);
    if (kind == InitialKind::log_uniform) {
      values[i] = static_cast<float>(natural_log(spec.initial.least + (spec.initial.most - spec.initial.least) * p));
      continue;
    }
    const double value = normal_quantile(kind == InitialKind::normal ? p : below_cut + (1 - 2 * below_cut) * p);
    values[i] = static_cast<float>(value * deviation);
  }
}

}  // namespace millrace::layers
