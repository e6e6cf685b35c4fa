#include "runtime/io/crc32c.hpp"

#include <boost/crc.hpp>

namespace millrace::runtime {

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
  // Castagnoli's polynomial; bits are taken and given lowest first.
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace millrace::runtime
