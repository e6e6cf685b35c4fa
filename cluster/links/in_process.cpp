#include <atomic>

#include "cluster/links/slot.hpp"

namespace millrace::cluster {
namespace {

/// Sender and receiver share the receiver's ring; sending a message is a function call.
class InProcessLink final : public Link {
 public:
  explicit InProcessLink(const ChannelEnds& ends)
      : Link(ends.spec), ring_(ends.receive_ring.data()), sender_(ends.sender), receiver_(ends.receiver) {}

  std::byte* slot(std::int64_t sequence) const override { return slot_address(spec_, ring_, sequence) + sizeof(SlotPrefix); }

  void send(std::int64_t sequence, std::size_t bytes, std::int64_t producer_finish_ns) override {
    const std::int64_t due = sent_.load(std::memory_order_relaxed);
    MILLRACE_CHECK(sequence == due, ExitCode::internal, "cluster.link", "{}: message {} is sent, expected {}", channel_text(spec_),
                   sequence, due);
    MILLRACE_CHECK(bytes <= spec_.bytes, ExitCode::internal, "cluster.link", "{}: a message of {} bytes, a slot has {}",
                   channel_text(spec_), bytes, spec_.bytes);
    // The acquire orders the consumer's last read of the slot before the next write to it. The ring may be a GPU's, so it has no
    // prefix.
    MILLRACE_CHECK(sequence < released_.load(std::memory_order_acquire) + spec_.depth, ExitCode::internal, "cluster.link",
                   "{}: message {} is sent while its slot still holds message {}", channel_text(spec_), sequence, sequence - spec_.depth);
    bytes_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    sent_.store(sequence + 1, std::memory_order_release);
    receiver_->on_arrival({spec_.id, sequence, slot(sequence), bytes, producer_finish_ns});
  }

  void release(std::int64_t sequence) override {
    const std::int64_t due = released_.load(std::memory_order_relaxed);
    MILLRACE_CHECK(sequence == due && sequence < sent_.load(std::memory_order_acquire), ExitCode::internal, "cluster.link",
                   "{}: message {} is released, expected {} of {} arrived", channel_text(spec_), sequence, due,
                   sent_.load(std::memory_order_relaxed));
    released_.store(sequence + 1, std::memory_order_release);
    sender_->on_writable(spec_.id, sequence);
  }

  Counters counters() const noexcept override {
    const std::int64_t released = released_.load(std::memory_order_acquire);  // read first: never more than were sent
    const std::int64_t messages = sent_.load(std::memory_order_relaxed), bytes = bytes_.load(std::memory_order_relaxed);
    return {messages, bytes, messages, bytes, released};
  }

 private:
  std::byte* const ring_;
  LinkEvents* const sender_;
  LinkEvents* const receiver_;
  std::atomic<std::int64_t> sent_{0};
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> released_{0};
};

}  // namespace

std::unique_ptr<Link> make_in_process_link(const ChannelEnds& ends) { return std::make_unique<InProcessLink>(ends); }

}  // namespace millrace::cluster
