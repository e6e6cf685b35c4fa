// The two kinds of ends of a channel over MPI, driven step by step: both ends of each channel are in this process, which sends to itself.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/links/mpi_end.hpp"
#include "cluster/links/slot.hpp"
#include "tests/cluster/link_world.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::cluster {
namespace {

using tests::expect_error;

/// Records the events of both ends.
class RecordedEvents final : public LinkEvents {
 public:
  void on_arrival(const Arrival& arrival) override { arrivals.push_back(arrival); }
  void on_part(const Arrival& part, std::size_t from) override { parts.emplace_back(from, part.bytes); }
  void on_writable(int, std::int64_t sequence) override { writable.push_back(sequence); }
  std::vector<Arrival> arrivals;
  std::vector<std::pair<std::size_t, std::size_t>> parts;  // where they begin, and their bytes
  std::vector<std::int64_t> writable;
};

/// A channel from this process to itself. All calls of MPI are the transport thread's.
class Pair {
 public:
  enum class Kind { pieces, batches };
  Pair(Kind kind, ChannelSpec spec, std::size_t piece_bytes = Links::default_piece_bytes, bool same_clock = true)
      : spec_(spec), memory_(2 * ring_bytes(spec) + 128) {
    auto* base = memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
    const ChannelEnds ends{spec, {base, ring_bytes(spec)}, {base + ring_bytes(spec), ring_bytes(spec)}, &events, &events};
    const MpiRoute route{transport().process(), same_clock};
    for (const bool sends : {true, false})
      (sends ? sender_ : receiver_) = kind == Kind::pieces ? make_piece_end(ends, transport(), route, sends, piece_bytes)
                                                           : make_batch_end(ends, transport(), route, sends);
    (void)on_transport([&] { return receiver_->post(); });
  }
  ~Pair() {
    transport().run([&] { receiver_->take_back(); });
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  static Transport& transport() { return *link_world().transport; }
  template <class Body>
  static bool on_transport(Body body) {
    bool result = false;
    transport().run([&] { result = body(); });
    return result;
  }

  MpiEnd& sender() { return *sender_; }
  MpiEnd& receiver() { return *receiver_; }
  void write(std::int64_t sequence, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      sender_->slot(sequence)[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(sequence));
  }
  void send(std::int64_t sequence, std::size_t bytes) {
    write(sequence, bytes);
    sender_->send(sequence, bytes, 1000 + sequence);
  }
  bool post() {
    return on_transport([&] { return sender_->post(); });
  }
  /// Polls an end and counts the requests that complete from now on.
  static int ended(MpiEnd& end) {
    int count = 0;
    // A message of a process to itself arrives within a few polls.
    transport().run([&] {
      for (int look = 0; look < 300; ++look) count += end.advance_if_ended() ? 1 : 0;
    });
    return count;
  }
  /// Waits until the receiver's oldest request completes.
  void expect_one_more() {
    for (int look = 0; look < 1'000'000; ++look)
      if (on_transport([&] { return receiver_->advance_if_ended(); })) return;
    FAIL() << "nothing came";
  }
  void expect_message(std::size_t index, std::int64_t sequence, std::size_t bytes) {
    ASSERT_LT(index, events.arrivals.size());
    const Arrival& arrival = events.arrivals[index];
    EXPECT_EQ(arrival.sequence, sequence);
    ASSERT_EQ(arrival.bytes, bytes);
    EXPECT_EQ(arrival.data, receiver_->slot(sequence));
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(arrival.data[i], static_cast<std::byte>(i * 31 + static_cast<std::size_t>(sequence))) << i;
  }

  RecordedEvents events;

 private:
  ChannelSpec spec_;
  std::vector<std::byte> memory_;
  std::unique_ptr<MpiEnd> sender_, receiver_;
};

ChannelSpec self(int depth, std::size_t bytes, std::size_t part_bytes = 0) {
  return {.id = 7, .from_rank = 0, .to_rank = 0, .kind = ChannelKind::gradient, .depth = depth, .bytes = bytes, .part_bytes = part_bytes};
}

// A prefix of 64 bytes and a payload of 300 in pieces of 100: 64, 100, 100, 100.
TEST(PieceEnd, AReceiverIsAtATransferFromItsFirstPieceToItsLast) {
  Pair pair(Pair::Kind::pieces, self(2, 300), 100);
  for (std::int64_t sequence = 0; sequence < 2; ++sequence) {
    EXPECT_FALSE(pair.receiver().transferring());
    pair.send(sequence, 300);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(pair.post());
    EXPECT_FALSE(pair.post()) << "all of it is posted";
    // A sender is at a transfer for a millisecond after a post; on a busy machine that may be over before it is asked.
    const bool sends = pair.sender().transferring();
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1)) {
      EXPECT_TRUE(sends);
    }
    for (int piece = 0; piece < 4; ++piece) {
      EXPECT_EQ(pair.receiver().transferring(), piece > 0) << piece;
      EXPECT_EQ(pair.events.arrivals.size(), static_cast<std::size_t>(sequence));
      pair.expect_one_more();
    }
    EXPECT_FALSE(pair.receiver().transferring());
    pair.expect_message(static_cast<std::size_t>(sequence), sequence, 300);
    EXPECT_EQ(pair.ended(pair.sender()), 4);
    EXPECT_FALSE(pair.sender().transferring()) << "nothing of it is out";
    EXPECT_EQ(pair.events.writable.size(), static_cast<std::size_t>(sequence) + 1) << "with its last piece";
  }
  EXPECT_TRUE(pair.events.parts.empty()) << "of channels with part_bytes alone";
}

TEST(PieceEnd, EveryMessageHasAllPiecesAndShortOnesHaveEmptyOnes) {
  Pair pair(Pair::Kind::pieces, self(8, 300), 100);
  const std::vector<std::size_t> sizes{0, 1, 99, 100, 101, 200, 201, 300};
  for (std::size_t message = 0; message < sizes.size(); ++message) {
    pair.send(static_cast<std::int64_t>(message), sizes[message]);
    (void)pair.post();
    EXPECT_EQ(pair.ended(pair.sender()), 4) << sizes[message];
    EXPECT_EQ(pair.ended(pair.receiver()), 4) << sizes[message];
    pair.expect_message(message, static_cast<std::int64_t>(message), sizes[message]);
  }
}

TEST(PieceEnd, AShortSlotIsOnePieceWithItsPrefix) {
  for (const auto& [piece_bytes, pieces] :
       {std::pair<std::size_t, int>{364, 1}, {363, 2}}) {  // with one byte less the prefix is sent ahead
    Pair pair(Pair::Kind::pieces, self(2, 300), piece_bytes);
    pair.send(0, 300);
    (void)pair.post();
    EXPECT_EQ(pair.ended(pair.sender()), pieces);
    EXPECT_EQ(pair.ended(pair.receiver()), pieces);
    pair.expect_message(0, 0, 300);
  }
}

// A message of 250 bytes in parts of 100: each part is sent as soon as it is complete, and the receiver is notified of each.
TEST(PieceEnd, PartsAreSentAsTheyBecomeReady) {
  Pair pair(Pair::Kind::pieces, self(2, 250, 100));
  for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
    const auto before = pair.events.parts.size();
    pair.write(sequence, 250);
    pair.sender().begin(sequence, 250, 1000 + sequence);
    EXPECT_TRUE(pair.post());
    EXPECT_EQ(pair.ended(pair.receiver()), 1) << "the prefix";
    EXPECT_TRUE(pair.receiver().transferring());
    const std::vector<std::pair<std::size_t, int>> steps{{0, 0}, {99, 0}, {100, 1}, {199, 0}, {200, 1}, {249, 0}, {250, 1}};
    for (const auto& [bytes, pieces] : steps) {
      pair.sender().ready(sequence, bytes);
      EXPECT_EQ(pair.post(), pieces > 0) << bytes;
      EXPECT_EQ(pair.ended(pair.receiver()), pieces) << bytes;
    }
    EXPECT_EQ(std::vector(pair.events.parts.begin() + static_cast<std::ptrdiff_t>(before), pair.events.parts.end()),
              (std::vector<std::pair<std::size_t, std::size_t>>{{0, 100}, {100, 100}, {200, 50}}));
    pair.expect_message(static_cast<std::size_t>(sequence), sequence, 250);
    EXPECT_EQ(pair.ended(pair.sender()), 4);
    pair.receiver().release(sequence);
  }
}

TEST(PieceEnd, APartMayBeASingleByteAndAShortMessageHasFewerParts) {
  Pair pair(Pair::Kind::pieces, self(2, 201, 100));
  pair.send(0, 201);
  pair.send(1, 101);
  (void)pair.post();
  EXPECT_EQ(pair.ended(pair.receiver()), 8);
  EXPECT_EQ(pair.events.parts, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 100}, {100, 100}, {200, 1}, {0, 100}, {100, 1}}));
  EXPECT_EQ(pair.events.arrivals.size(), 2U);
  EXPECT_EQ(pair.ended(pair.sender()), 8);
}

TEST(PieceEnd, AReceiverHasRoomForItsRingAndNoMore) {
  Pair pair(Pair::Kind::pieces, self(2, 300), 100);
  for (std::int64_t sequence = 0; sequence < 2; ++sequence) pair.send(sequence, 300);
  (void)pair.post();
  EXPECT_EQ(pair.ended(pair.receiver()), 8);
  EXPECT_EQ(pair.ended(pair.sender()), 8);
  pair.send(2, 300);
  (void)pair.post();
  EXPECT_EQ(pair.ended(pair.receiver()), 0) << "its slot is not released";
  pair.receiver().release(0);
  EXPECT_EQ(pair.ended(pair.receiver()), 4);
  EXPECT_EQ(pair.ended(pair.sender()), 4);
  pair.expect_message(2, 2, 300);
}

// Slots of 192 bytes: the messages that are submitted before the transport polls are sent as one MPI message, up to the end of the
// ring.
TEST(BatchEnd, NeighbouringSlotsAreOneMessage) {
  Pair pair(Pair::Kind::batches, self(8, 100));
  EXPECT_FALSE(pair.post());
  for (std::int64_t sequence = 0; sequence < 6; ++sequence) pair.send(sequence, sequence == 5 ? 7 : 100);
  EXPECT_TRUE(pair.post());
  EXPECT_FALSE(pair.post());
  EXPECT_EQ(pair.ended(pair.sender()), 1);
  EXPECT_EQ(pair.events.writable, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(pair.ended(pair.receiver()), 1);
  ASSERT_EQ(pair.events.arrivals.size(), 6U);
  for (std::int64_t sequence = 0; sequence < 6; ++sequence) {
    pair.expect_message(static_cast<std::size_t>(sequence), sequence, sequence == 5 ? 7 : 100);
    EXPECT_EQ(pair.events.arrivals[static_cast<std::size_t>(sequence)].producer_finish_ns, 1000 + sequence);
    pair.receiver().release(sequence);
  }
  for (std::int64_t sequence = 6; sequence < 10; ++sequence) pair.send(sequence, 100);
  EXPECT_TRUE(pair.post());
  EXPECT_EQ(pair.ended(pair.sender()), 2) << "6 and 7, and from the ring's begin 8 and 9";
  EXPECT_EQ(pair.ended(pair.receiver()), 2);
  ASSERT_EQ(pair.events.arrivals.size(), 10U);
  for (std::int64_t sequence = 6; sequence < 10; ++sequence) pair.expect_message(static_cast<std::size_t>(sequence), sequence, 100);
}

// 64 KiB hold four slots of 16 KiB.
TEST(BatchEnd, ABatchIsNoLongerThanItsBuffer) {
  Pair pair(Pair::Kind::batches, self(8, 16320));
  for (std::int64_t sequence = 0; sequence < 6; ++sequence) pair.send(sequence, 16320);
  (void)pair.post();
  EXPECT_EQ(pair.ended(pair.receiver()), 2);
  EXPECT_EQ(pair.ended(pair.sender()), 2);
  ASSERT_EQ(pair.events.arrivals.size(), 6U);
  for (std::int64_t sequence = 0; sequence < 6; ++sequence) pair.expect_message(static_cast<std::size_t>(sequence), sequence, 16320);
}

TEST(BatchEnd, MessagesWaitForTheirSlotsWithoutHoldingTheSender) {
  Pair pair(Pair::Kind::batches, self(4, 100));
  for (std::int64_t sequence = 0; sequence < 8; ++sequence) {
    if (sequence == 4) {
      (void)pair.post();
      EXPECT_EQ(pair.ended(pair.sender()), 1);
    }
    pair.send(sequence, 100);
  }
  (void)pair.post();
  EXPECT_EQ(pair.ended(pair.sender()), 1);
  (void)pair.ended(pair.receiver());
  EXPECT_EQ(pair.events.arrivals.size(), 4U) << "as many as there are slots";
  for (std::int64_t sequence = 0; sequence < 4; ++sequence) {
    pair.receiver().release(sequence);
    (void)pair.ended(pair.receiver());
    EXPECT_EQ(pair.events.arrivals.size(), static_cast<std::size_t>(sequence) + 5);
    pair.expect_message(static_cast<std::size_t>(sequence) + 4, sequence + 4, 100);
  }
}

TEST(BatchEnd, IsForShortSlotsOfTheHostsMemory) {
  EXPECT_TRUE(goes_in_batches(self(2, 16320), Links::default_piece_bytes));
  EXPECT_FALSE(goes_in_batches(self(2, 16321), Links::default_piece_bytes));
  EXPECT_TRUE(goes_in_batches(self(2, 100), 164));
  EXPECT_FALSE(goes_in_batches(self(2, 100), 163)) << "with its prefix it is longer than a piece";
  EXPECT_FALSE(goes_in_batches(self(2, 100, 1), Links::default_piece_bytes));
  ChannelSpec on_device = self(2, 100);
  on_device.on_device = true;
  EXPECT_FALSE(goes_in_batches(on_device, Links::default_piece_bytes));
}

TEST(MpiEnd, SaysHowTheTransportMayWaitForIt) {
  for (const std::size_t bytes : {4031U, 4032U}) {  // with the prefix 4095 and 4096 bytes
    Pair pair(Pair::Kind::pieces, self(2, bytes));
    EXPECT_EQ(pair.receiver().while_waiting(), Activity::listening);
    pair.send(0, bytes);
    EXPECT_FALSE(pair.sender().outstanding());
    (void)pair.post();
    EXPECT_TRUE(pair.sender().outstanding());
    EXPECT_EQ(pair.sender().while_waiting(), bytes < 4032 ? Activity::unsignalled : Activity::sending);
    EXPECT_EQ(pair.ended(pair.receiver()), 1);
    EXPECT_EQ(pair.ended(pair.sender()), 1);
    EXPECT_FALSE(pair.sender().outstanding());
  }
}

TEST(MpiEnd, TimesOfAnotherHostsClockAreNotHandedOn) {
  for (const auto kind : {Pair::Kind::pieces, Pair::Kind::batches})
    for (const bool same_clock : {true, false}) {
      Pair pair(kind, self(2, 100), Links::default_piece_bytes, same_clock);
      pair.send(0, 100);
      (void)pair.post();
      EXPECT_EQ(pair.ended(pair.sender()), 1);
      EXPECT_EQ(pair.ended(pair.receiver()), 1);
      ASSERT_EQ(pair.events.arrivals.size(), 1U);
      EXPECT_EQ(pair.events.arrivals[0].producer_finish_ns, same_clock ? 1000 : 0);
    }
}

TEST(MpiEnd, CountsWhatPassedAndWhatWasReleased) {
  for (const auto kind : {Pair::Kind::pieces, Pair::Kind::batches}) {
    Pair pair(kind, self(2, 100));
    pair.send(0, 100);
    pair.send(1, 7);
    (void)pair.post();
    (void)pair.ended(pair.sender());
    (void)pair.ended(pair.receiver());
    pair.receiver().release(0);
    const auto sent = pair.sender().counters(), received = pair.receiver().counters();
    EXPECT_EQ(sent.messages_sent, 2);
    EXPECT_EQ(sent.bytes_sent, 107);
    EXPECT_EQ(sent.messages_received, 0);
    EXPECT_EQ(sent.messages_released, 0);
    EXPECT_EQ(received.messages_sent, 0);
    EXPECT_EQ(received.messages_received, 2);
    EXPECT_EQ(received.bytes_received, 107);
    EXPECT_EQ(received.messages_released, 1);
  }
}

TEST(MpiEnd, RefusesWhatALinkDoesNotAllow) {
  for (const auto kind : {Pair::Kind::pieces, Pair::Kind::batches}) {
    Pair pair(kind, self(2, 100));
    const auto refuse = [](const std::function<void()>& action, const std::string& part) {
      expect_error(action, ExitCode::internal, {"channel 7 (gradient, rank 0 -> rank 0): " + part});
    };
    MpiEnd &sender = pair.sender(), &receiver = pair.receiver();
    refuse([&] { sender.send(1, 10, 0); }, "message 1 is sent, expected 0");
    refuse([&] { sender.send(0, 101, 0); }, "a message of 101 bytes, a slot has 100");
    refuse([&] { sender.release(0); }, "release on the sending side");
    refuse([&] { receiver.send(0, 10, 0); }, "send on the receiving side");
    refuse([&] { receiver.release(0); }, "message 0 is released, expected 0 of 0 arrived");
    pair.send(0, 100);
    pair.send(1, 100);
    refuse([&] { sender.send(2, 10, 0); }, "message 2 is sent while its slot still holds message 0");
    (void)pair.post();
    (void)pair.ended(sender);
    (void)pair.ended(receiver);
    refuse([&] { receiver.release(1); }, "message 1 is released, expected 0 of 2 arrived");
    receiver.release(0);
    receiver.release(1);
    refuse([&] { receiver.release(2); }, "message 2 is released, expected 2 of 2 arrived");
    if (kind == Pair::Kind::batches) {
      refuse([&] { sender.begin(2, 10, 0); }, "message 2 begins in parts, expected it whole");
      refuse([&] { sender.ready(2, 10); }, "a part of message 2, expected it whole");
    } else {
      refuse([&] { sender.ready(2, 10); }, "a part of message 2, expected one of message 1, which began last");
    }
  }
}

}  // namespace
}  // namespace millrace::cluster
