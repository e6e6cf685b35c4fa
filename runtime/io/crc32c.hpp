#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::runtime {

/// CRC-32C (Castagnoli), used by iSCSI and TFRecord files. The CRC of "123456789" is 0xe3069283.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;
/// The masked CRC that TFRecord files store: rotated by 15 bits plus a constant, so that a CRC over data that contain CRCs stays
/// meaningful.
[[nodiscard]] constexpr std::uint32_t masked_crc(std::uint32_t crc) noexcept { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

}  // namespace millrace::runtime
