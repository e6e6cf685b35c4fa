#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cluster/links/link.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {

/// The 64 bytes before a payload. They are sent with it, so that a mix-up causes an immediate error instead of wrong numbers.
struct alignas(64) SlotPrefix {
  static constexpr std::uint32_t right_mark = 0x4d524c4b;
  std::uint32_t mark = 0;
  std::int32_t channel = 0;
  std::int64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::int64_t producer_finish_ns = 0;
};
static_assert(sizeof(SlotPrefix) == slot_payload_offset);

inline std::byte* slot_address(const ChannelSpec& spec, std::byte* ring, std::int64_t sequence) {
  return ring + static_cast<std::size_t>(sequence % spec.depth) * slot_stride(spec);
}

inline void write_prefix(const ChannelSpec& spec, std::byte* slot, std::int64_t sequence, std::size_t bytes,
                         std::int64_t producer_finish_ns) {
  const SlotPrefix prefix{SlotPrefix::right_mark, spec.id, sequence, bytes, producer_finish_ns};
  std::memcpy(slot, &prefix, sizeof prefix);
}

/// Throws Error(internal) with channel and ranks unless the slot holds message `sequence` of this channel.
SlotPrefix read_prefix(const ChannelSpec& spec, const std::byte* slot, std::int64_t sequence);

/// "channel 3 (activation, rank 0 -> rank 1)".
std::string channel_text(const ChannelSpec& spec);

/// Creates a channel whose two ranks are in this process.
std::unique_ptr<Link> make_in_process_link(const ChannelEnds& ends);

}  // namespace millrace::cluster
