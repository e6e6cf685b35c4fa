// Short messages: whatever is ready when the transport polls is sent as one MPI message, whose fixed cost is many times that of a
// short copy.

#include <algorithm>
#include <array>

#include "cluster/links/mpi_end.hpp"
#include "cluster/links/slot.hpp"

namespace millrace::cluster {
namespace {

constexpr std::size_t longest_slot = std::size_t{16} << 10;
constexpr std::size_t longest_batch = std::size_t{64} << 10;
constexpr int staging_buffers = 2;

std::int64_t max_coalesced(const ChannelSpec& spec) {
  return std::min<std::int64_t>(spec.depth, static_cast<std::int64_t>(longest_batch / slot_stride(spec)));
}

/// Adjacent slots of the ring are sent as one MPI message as they are, including padding.
class BatchSender final : public MpiSender {
 public:
  BatchSender(const ChannelEnds& ends, Transport& transport, const MpiRoute& route)
      : MpiSender(ends, transport, route.peer, static_cast<std::size_t>(ends.spec.depth)),
        batch_ends_(static_cast<std::size_t>(ends.spec.depth)) {}

  bool post() override {
    const std::int64_t postable = postable_.load(std::memory_order_acquire);
    if (next_ == postable) return false;
    while (next_ < postable) {
      const std::int64_t to_ring_end = spec_.depth - next_ % spec_.depth;
      const std::int64_t end = next_ + std::min({postable - next_, to_ring_end, max_coalesced(spec_)});
      const std::byte* first = slot_address(spec_, ring_, next_);
      const std::byte* last = slot_address(spec_, ring_, end - 1);
      SlotPrefix prefix;
      std::memcpy(&prefix, last, sizeof prefix);
      batch_ends_[static_cast<std::size_t>(posted_ % spec_.depth)] = next_ = end;
      post_send(first, static_cast<int>(static_cast<std::size_t>(last - first) + sizeof prefix + prefix.bytes));
    }
    return true;
  }

 private:
  void request_ended(std::int64_t number, const MPI_Status&) override {
    sent_up_to(batch_ends_[static_cast<std::size_t>(number % spec_.depth)]);
  }

  std::int64_t next_ = 0;                 ///< next message to post
  std::vector<std::int64_t> batch_ends_;  ///< by request
};

/// The sender does not know the receiver's free slots, so a batch may be longer than the free part of the ring: it is received
/// into a buffer, and its messages are copied to their slots as these become free.
class BatchReceiver final : public MpiReceiver {
 public:
  BatchReceiver(const ChannelEnds& ends, Transport& transport, const MpiRoute& route)
      : MpiReceiver(ends, transport, route.peer, staging_buffers, route.same_clock),
        buffer_bytes_(static_cast<std::size_t>(max_coalesced(spec_)) * slot_stride(spec_)),
        buffers_(staging_buffers * buffer_bytes_) {}

  bool post() override {
    bool moved = unpack();
    while (posted_ < unpacked_ + staging_buffers) {
      post_receive(buffer(posted_), static_cast<int>(buffer_bytes_));
      moved = true;
    }
    return moved;
  }

 private:
  void request_ended(std::int64_t number, const MPI_Status& status) override {
    int got = 0;
    MPI_Get_count(&status, MPI_BYTE, &got);
    filled_[static_cast<std::size_t>(number % staging_buffers)] = static_cast<std::size_t>(got);
    post();
  }

  bool unpack() {
    bool moved = false;
    while (unpacked_ < tested_) {
      const std::size_t filled = filled_[static_cast<std::size_t>(unpacked_ % staging_buffers)];
      if (next_ == postable_.load(std::memory_order_acquire)) return moved;
      read_ += take_message({buffer(unpacked_) + read_, filled - read_});
      moved = true;
      if (read_ < filled) continue;
      ++unpacked_;
      read_ = 0;
    }
    return moved;
  }

  /// Copies the first message of `bytes` to its slot; returns the offset of the next one.
  std::size_t take_message(std::span<const std::byte> bytes) {
    MILLRACE_CHECK(bytes.size() >= sizeof(SlotPrefix), ExitCode::internal, "cluster.link",
                   "{}: message {} has {} bytes, expected a prefix of {}", channel_text(spec_), next_, bytes.size(), sizeof(SlotPrefix));
    const SlotPrefix prefix = read_prefix(spec_, bytes.data(), next_);
    const std::size_t whole = sizeof prefix + prefix.bytes;
    MILLRACE_CHECK(bytes.size() == whole || bytes.size() > slot_stride(spec_), ExitCode::internal, "cluster.link",
                   "{}: message {} ends after {} bytes, expected {}", channel_text(spec_), next_, bytes.size(), whole);
    std::memcpy(slot_address(spec_, ring_, next_), bytes.data(), whole);
    arrived(next_++, prefix.bytes, prefix.producer_finish_ns);
    return std::min(bytes.size(), slot_stride(spec_));
  }

  std::byte* buffer(std::int64_t request) { return buffers_.data() + static_cast<std::size_t>(request % staging_buffers) * buffer_bytes_; }

  const std::size_t buffer_bytes_;
  std::vector<std::byte> buffers_;
  std::array<std::size_t, staging_buffers> filled_{};
  std::int64_t unpacked_ = 0;  ///< number of requests whose messages are all in their slots
  std::size_t read_ = 0;       ///< bytes of the current buffer that are unpacked
  std::int64_t next_ = 0;      ///< message
};

}  // namespace

bool goes_in_batches(const ChannelSpec& spec, std::size_t piece_bytes) {
  // Parts, and rings on devices, are only used for long messages.
  if (spec.on_device || spec.part_bytes > 0) return false;
  return slot_stride(spec) <= longest_slot && sizeof(SlotPrefix) + spec.bytes <= piece_bytes;
}

std::unique_ptr<MpiEnd> make_batch_end(const ChannelEnds& ends, Transport& transport, const MpiRoute& route, bool sends) {
  if (sends) return std::make_unique<BatchSender>(ends, transport, route);
  return std::make_unique<BatchReceiver>(ends, transport, route);
}

}  // namespace millrace::cluster
