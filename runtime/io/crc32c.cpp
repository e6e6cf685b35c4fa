#include "runtime/io/crc32c.hpp"

#include <array>

namespace millrace::runtime {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41 with its bits turned around: the lowest bit goes first

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr auto table = make_table();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (const auto byte : bytes) crc = (crc >> 8) ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace millrace::runtime
