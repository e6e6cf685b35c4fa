#include "layers/pcg64.hpp"

#include <array>
#include <bit>
#include <cstddef>

namespace millrace::layers {
namespace {

/// SeedSequence of NumPy: four words of entropy, each mixed with every other.
std::array<std::uint64_t, 4> seed_words(std::uint64_t seed) noexcept {
  constexpr std::uint32_t shift = 16;
  std::uint32_t factor = 0x43b0d7e5;
  const auto mixed = [&](std::uint32_t value) {
    value ^= factor;
    factor *= 0x931e8875;
    value *= factor;
    return value ^ (value >> shift);
  };
  const auto folded = [](std::uint32_t x, std::uint32_t y) {
    const std::uint32_t result = 0xca01f9ddU * x - 0x4973f715U * y;
    return result ^ (result >> shift);
  };
  std::array<std::uint32_t, 4> pool{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::uint32_t& word : pool) word = mixed(word);
  for (std::size_t from = 0; from < pool.size(); ++from)
    for (std::size_t to = 0; to < pool.size(); ++to)
      if (from != to) pool[to] = folded(pool[to], mixed(pool[from]));
  std::array<std::uint64_t, 4> words{};
  factor = 0x8b51f9dd;
  for (std::size_t i = 0; i < 2 * words.size(); ++i) {
    std::uint32_t value = pool[i % pool.size()] ^ factor;
    factor *= 0x58f38ded;
    value *= factor;
    value ^= value >> shift;
    words[i / 2] |= static_cast<std::uint64_t>(value) << (32 * (i % 2));
  }
  return words;
}

}  // namespace

Pcg64::Pcg64(std::uint64_t seed) noexcept {
  const auto words = seed_words(seed);
  increment_ = ((static_cast<Wide>(words[2]) << 64 | words[3]) << 1) | 1;
  step();
  state_ += static_cast<Wide>(words[0]) << 64 | words[1];
  step();
}

void Pcg64::step() noexcept {
  constexpr Wide multiplier = static_cast<Wide>(0x2360ED051FC65DA4) << 64 | 0x4385DF649FCCF645;
  state_ = state_ * multiplier + increment_;
}

std::uint64_t Pcg64::next64() noexcept {
  step();
  const auto upper = static_cast<std::uint64_t>(state_ >> 64), lower = static_cast<std::uint64_t>(state_);
  return std::rotr(upper ^ lower, static_cast<int>(upper >> 58));
}

std::uint32_t Pcg64::next32() noexcept {
  if (upper_half_) {
    const std::uint32_t half = *upper_half_;
    upper_half_.reset();
    return half;
  }
  const std::uint64_t both = next64();
  upper_half_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

std::uint32_t Pcg64::below(std::uint32_t bound) noexcept {
  if (bound <= 1) return 0;
  const std::uint32_t rejected = (0U - bound) % bound;
  std::uint64_t product = 0;
  do product = static_cast<std::uint64_t>(next32()) * bound;
  while (static_cast<std::uint32_t>(product) < rejected);
  return static_cast<std::uint32_t>(product >> 32);
}

}  // namespace millrace::layers
