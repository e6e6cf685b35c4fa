#include "cluster/links/link.hpp"

#include <string>

#include "cluster/links/remote.hpp"
#include "cluster/links/slot.hpp"
#include "cluster/links/transport.hpp"

namespace millrace::cluster {
namespace {

constexpr int largest_channel_id = 32767;  // the smallest upper bound of tags that MPI guarantees

void check_ring(const ChannelSpec& spec, std::span<std::byte> ring, const char* side) {
  MILLRACE_CHECK(ring.size() >= ring_bytes(spec), ExitCode::internal, "cluster.link", "{}: the {} ring has {} bytes, expected {}",
                 channel_text(spec), side, ring.size(), ring_bytes(spec));
  MILLRACE_CHECK(reinterpret_cast<std::uintptr_t>(ring.data()) % 64 == 0, ExitCode::internal, "cluster.link",
                 "{}: the {} ring is not 64-byte aligned", channel_text(spec), side);
}

void check_ends(const Topology& topology, const ChannelEnds& ends) {
  const ChannelSpec& spec = ends.spec;
  MILLRACE_CHECK(spec.id >= 0 && spec.id <= largest_channel_id && spec.depth >= 1 && spec.from_rank >= 0 &&
                     spec.from_rank < topology.ranks() && spec.to_rank >= 0 && spec.to_rank < topology.ranks(),
                 ExitCode::internal, "cluster.link",
                 "{}: depth {}, expected an id from 0 to {}, a depth of at least 1 and ranks from 0 to {}", channel_text(spec), spec.depth,
                 largest_channel_id, topology.ranks() - 1);
  const bool sends = topology.hosts(spec.from_rank), receives = topology.hosts(spec.to_rank);
  if (receives) check_ring(spec, ends.receive_ring, "receive");
  if (sends && !receives) check_ring(spec, ends.send_ring, "send");
  MILLRACE_CHECK((!sends || ends.sender != nullptr) && (!receives || ends.receiver != nullptr), ExitCode::internal, "cluster.link",
                 "{}: an end in this process has no LinkEvents", channel_text(spec));
}

}  // namespace

const char* to_string(ChannelKind kind) {
  switch (kind) {
    case ChannelKind::activation:
      return "activation";
    case ChannelKind::gradient:
      return "gradient";
    case ChannelKind::sums:
      return "sums";
  }
  return "unknown";
}

std::size_t slot_stride(const ChannelSpec& spec) { return sizeof(SlotPrefix) + (spec.bytes + 63) / 64 * 64; }
std::size_t ring_bytes(const ChannelSpec& spec) { return slot_stride(spec) * static_cast<std::size_t>(spec.depth); }

std::string channel_text(const ChannelSpec& spec) {
  return fmt::format("channel {} ({}, rank {} -> rank {})", spec.id, to_string(spec.kind), spec.from_rank, spec.to_rank);
}

SlotPrefix read_prefix(const ChannelSpec& spec, const std::byte* slot, std::int64_t sequence) {
  SlotPrefix prefix;
  std::memcpy(&prefix, slot, sizeof prefix);
  MILLRACE_CHECK(prefix.mark == SlotPrefix::right_mark, ExitCode::internal, "cluster.link",
                 "{}: what arrived as message {} is not a message of a link", channel_text(spec), sequence);
  MILLRACE_CHECK(prefix.channel == spec.id && prefix.sequence == sequence, ExitCode::internal, "cluster.link",
                 "{}: message {} of channel {} arrived, expected message {}", channel_text(spec), prefix.sequence, prefix.channel,
                 sequence);
  MILLRACE_CHECK(prefix.bytes <= spec.bytes, ExitCode::internal, "cluster.link", "{}: message {} claims {} bytes, a slot has {}",
                 channel_text(spec), sequence, prefix.bytes, spec.bytes);
  return prefix;
}

void Link::begin(std::int64_t sequence, std::size_t, std::int64_t) {
  fail(ExitCode::internal, "cluster.link", "{}: message {} begins in parts, expected it whole", channel_text(spec_), sequence);
}
void Link::ready(std::int64_t sequence, std::size_t) {
  fail(ExitCode::internal, "cluster.link", "{}: a part of message {}, expected it whole", channel_text(spec_), sequence);
}

Links::Links(const Topology& topology, Transport* transport, std::span<const ChannelEnds> channels, std::size_t piece_bytes)
    : transport_(transport) {
  for (const ChannelEnds& ends : channels) {
    const ChannelSpec& spec = ends.spec;
    check_ends(topology, ends);
    const bool sends = topology.hosts(spec.from_rank), receives = topology.hosts(spec.to_rank);
    if (!sends && !receives) continue;
    Link* link = nullptr;
    if (sends && receives) {
      link = local_.emplace_back(make_in_process_link(ends)).get();
    } else {
      MILLRACE_CHECK(transport != nullptr, ExitCode::internal, "cluster.link", "{} leaves this process, and there is no transport",
                     channel_text(spec));
      if (!remote_) remote_ = RemoteLinks::make(topology, *transport, piece_bytes);
      link = &remote_->add(ends);
    }
    if (by_id_.size() <= static_cast<std::size_t>(spec.id)) by_id_.resize(static_cast<std::size_t>(spec.id) + 1);
    Link*& place = by_id_[static_cast<std::size_t>(spec.id)];
    MILLRACE_CHECK(place == nullptr, ExitCode::internal, "cluster.link", "{}: the id is used twice", channel_text(spec));
    place = link;
  }
  if (remote_) remote_->start();
}

Links::~Links() {
  if (remote_) remote_->stop();
}

Link& Links::link(int channel) const {
  MILLRACE_CHECK(channel >= 0 && static_cast<std::size_t>(channel) < by_id_.size() && by_id_[static_cast<std::size_t>(channel)] != nullptr,
                 ExitCode::internal, "cluster.link", "channel {} has no end in this process", channel);
  return *by_id_[static_cast<std::size_t>(channel)];
}

void Links::close() {
  if (remote_) remote_->stop();
  // A faster peer must not send into our receives that are about to be cancelled.
  if (transport_ != nullptr) transport_->barrier();
}

}  // namespace millrace::cluster
