#pragma once

#include <algorithm>
#include <cstdint>

#include "actors/rank/rank_blueprint.hpp"
#include "cluster/links/link.hpp"

namespace millrace::actors {

/// How a boundary is transferred from where its producer's programs write it to where its consumer's programs read it.
///
///   way    | the producer's programs write | the link has                           | the consumer's programs read
///   -------|-------------------------------|----------------------------------------|-----------------------------
///   shared | the consumer's ring           | that ring                              | that ring
///   direct | the producer's ring           | that ring, and the consumer's          | the consumer's ring
///   peer   | the producer's ring           | the consumer's ring                    | the consumer's ring
///   staged | the producer's ring           | a ring in pinned memory on either side | the consumer's ring
///
/// If the first two differ, Rank::copy_out copies on the producer's stream copy_out (shared: they are the same); if the last two
/// differ, Rank::part_came (parts) or Rank::copy_in (whole) copies on the consumer's stream copy_in.
enum class TransferPath : std::uint8_t {
  shared,  // the same memory: the consumer's ring, which both can access
  direct,  // through the link alone, from ring to ring: between processes on CPUs, or if MPI can access GPU memory
  peer,    // between devices of one process: a copy from device to device, then a call
  staged,  // between processes with GPUs: a copy to pinned host memory, the link, a copy to the other device
};

/// The path of a channel, for a job whose processes host this number of ranks with these devices; the same on both sides.
[[nodiscard]] inline TransferPath transfer_path(const cluster::ChannelSpec& channel, const RankResources& needs) {
  const bool same_process = channel.from_rank / needs.ranks_per_process == channel.to_rank / needs.ranks_per_process;
  if (same_process)
    return needs.device_of(channel.from_rank) == needs.device_of(channel.to_rank) ? TransferPath::shared : TransferPath::peer;
  return needs.devices.empty() || needs.mpi_reaches_devices ? TransferPath::direct : TransferPath::staged;
}

/// The channel in the form that its link carries. A staged channel is sent in parts, so that the copies on both sides and the
/// network overlap: few enough that their fixed cost does not matter, and none too short.
[[nodiscard]] inline cluster::ChannelSpec carried(cluster::ChannelSpec channel, const RankResources& needs) {
  constexpr std::size_t most_parts = 8, least_part = std::size_t{1} << 20;
  const auto way = transfer_path(channel, needs);
  channel.on_device = way == TransferPath::direct && !needs.devices.empty();
  if (way == TransferPath::staged && channel.kind != cluster::ChannelKind::sums)
    channel.part_bytes = std::max(least_part, (channel.bytes / most_parts + 63) / 64 * 64);
  return channel;
}

}  // namespace millrace::actors
