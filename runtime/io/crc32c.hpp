#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::runtime {

/// CRC-32C (Castagnoli), of iSCSI and of TFRecord files: of "123456789" it is 0xe3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// What TFRecord files store in its place: turned by 15 bits and shifted, so that the CRC of data that hold a CRC is no special value.
[[nodiscard]] constexpr std::uint32_t masked_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace millrace::runtime
