#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "cluster/links/slot.hpp"
#include "tests/cluster/link_world.hpp"

namespace millrace::cluster {

LinkWorld& link_world() {
  static LinkWorld world{Topology(4, 1, 0), nullptr};
  return world;
}

namespace {

struct Silent final : LinkEvents {
  void on_arrival(const Arrival&) override {}
  void on_writable(int, std::int64_t) override {}
};

/// A channel of two slots between two ranks of this process.
class InProcessLink : public ::testing::Test {
 protected:
  alignas(64) std::byte ring_[512];
  Silent events_;
  ChannelSpec spec_{7, 0, 1, ChannelKind::gradient, 2, 100};
  Links links_{link_world().topology, nullptr, std::vector<ChannelEnds>{{spec_, ring_, {}, &events_, &events_}}};

  static std::string message_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal);
      return error.what();
    }
    return "no error";
  }
};

TEST_F(InProcessLink, SharesTheReceiversRing) {
  Link& link = links_.link(7);
  EXPECT_GE(link.slot(0), ring_);
  EXPECT_LE(link.slot(1) + spec_.bytes, ring_ + sizeof ring_);
  EXPECT_EQ(link.slot(0), link.slot(2));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(link.slot(1)) % 64, 0u);
}

TEST_F(InProcessLink, NamesTheChannelWhenASequenceIsLeftOut) {
  EXPECT_EQ(message_of([&] { links_.link(7).send(1, 10, 0); }),
            "[cluster.link] channel 7 (gradient, rank 0 -> rank 1): message 1 is sent, expected 0");
}

TEST_F(InProcessLink, RefusesToOverwriteASlotInUse) {
  Link& link = links_.link(7);
  link.send(0, 10, 0);
  link.send(1, 10, 0);
  EXPECT_NE(message_of([&] { link.send(2, 10, 0); }).find("its slot still holds message 0"), std::string::npos);
  link.release(0);
  EXPECT_EQ(message_of([&] { link.send(2, 10, 0); }), "no error");
}

TEST_F(InProcessLink, RefusesMoreThanASlotHoldsAndWhatDidNotArrive) {
  EXPECT_NE(message_of([&] { links_.link(7).send(0, 101, 0); }).find("101 bytes"), std::string::npos);
  EXPECT_NE(message_of([&] { links_.link(7).release(0); }).find("released"), std::string::npos);
  EXPECT_NE(message_of([&] { (void)links_.link(6); }).find("no end"), std::string::npos);
}

TEST_F(InProcessLink, RefusesRingsAndIdsThatCannotBe) {
  const auto open = [&](const std::vector<ChannelEnds>& channels) {
    return message_of([&] { Links(link_world().topology, nullptr, channels); });
  };
  EXPECT_NE(open({{spec_, std::span(ring_).first(300), {}, &events_, &events_}}).find("has 300 bytes"), std::string::npos);
  EXPECT_NE(open({{spec_, std::span(ring_).subspan(8), {}, &events_, &events_}}).find("not 64-byte aligned"), std::string::npos);
  EXPECT_NE(open({{spec_, ring_, {}, nullptr, &events_}}).find("has no LinkEvents"), std::string::npos);
  EXPECT_NE(open({{spec_, ring_, {}, &events_, &events_}, {spec_, ring_, {}, &events_, &events_}}).find("twice"), std::string::npos);
}

TEST_F(InProcessLink, RefusesChannelsThatCannotBe) {
  const auto open = [&](const ChannelSpec& spec) {
    return message_of([&] { Links(link_world().topology, nullptr, std::vector<ChannelEnds>{{spec, ring_, {}, &events_, &events_}}); });
  };
  const auto with = [&](auto&& change) {
    ChannelSpec spec = spec_;
    change(spec);
    return spec;
  };
  EXPECT_EQ(open(spec_), "no error");
  EXPECT_EQ(open(with([](ChannelSpec& spec) { spec.id = 32767; })), "no error");
  const auto words = "expected an id from 0 to 32767, a depth of at least 1 and ranks from 0 to 3";
  for (const ChannelSpec& spec : {with([](ChannelSpec& one) { one.id = -1; }), with([](ChannelSpec& one) { one.id = 32768; }),
                                  with([](ChannelSpec& one) { one.depth = 0; }), with([](ChannelSpec& one) { one.from_rank = -1; }),
                                  with([](ChannelSpec& one) { one.from_rank = 4; }), with([](ChannelSpec& one) { one.to_rank = -1; }),
                                  with([](ChannelSpec& one) { one.to_rank = 4; })})
    EXPECT_NE(open(spec).find(words), std::string::npos) << open(spec);
  const std::vector<ChannelEnds> away{{spec_, {}, std::span(ring_), &events_, nullptr}};
  EXPECT_NE(message_of([&] { Links(Topology(4, 4, 0), nullptr, away); }).find("there is no transport"), std::string::npos);
  EXPECT_EQ(message_of([&] { Links(Topology(4, 4, 2), nullptr, away); }), "no error") << "a channel of others";
}

TEST_F(InProcessLink, RefusesPartsAndAReleaseInAnotherOrder) {
  Link& link = links_.link(7);
  EXPECT_NE(message_of([&] { link.begin(0, 10, 0); }).find("message 0 begins in parts, expected it whole"), std::string::npos);
  EXPECT_NE(message_of([&] { link.ready(0, 10); }).find("a part of message 0, expected it whole"), std::string::npos);
  link.send(0, 10, 0);
  link.send(1, 20, 0);
  EXPECT_NE(message_of([&] { link.release(1); }).find("message 1 is released, expected 0 of 2 arrived"), std::string::npos);
  link.release(0);
  const auto counters = link.counters();
  EXPECT_EQ(counters.messages_sent, 2);
  EXPECT_EQ(counters.messages_received, 2);
  EXPECT_EQ(counters.bytes_sent, 30);
  EXPECT_EQ(counters.bytes_received, 30);
  EXPECT_EQ(counters.messages_released, 1);
}

TEST(Slots, AreAligned) {
  ChannelSpec spec;
  spec.depth = 3;
  for (const auto& [bytes, stride] :
       {std::pair<std::size_t, std::size_t>{0, 64}, {1, 128}, {63, 128}, {64, 128}, {65, 192}, {128, 192}, {129, 256}}) {
    spec.bytes = bytes;
    EXPECT_EQ(slot_stride(spec), stride) << bytes;
    EXPECT_EQ(ring_bytes(spec), 3 * stride);
  }
}

TEST_F(InProcessLink, AMixUpOnTheWireIsANamedError) {
  write_prefix(spec_, ring_, 5, 10, 0);
  EXPECT_EQ(read_prefix(spec_, ring_, 5).bytes, 10u);
  EXPECT_EQ(message_of([&] { read_prefix(spec_, ring_, 6); }),
            "[cluster.link] channel 7 (gradient, rank 0 -> rank 1): message 5 of channel 7 arrived, expected message 6");
  write_prefix({8, 0, 1, ChannelKind::gradient, 2, 100}, ring_, 5, 10, 0);
  EXPECT_NE(message_of([&] { read_prefix(spec_, ring_, 5); }).find("message 5 of channel 8 arrived, expected message 5"),
            std::string::npos);
  write_prefix(spec_, ring_, 5, 100, 0);
  EXPECT_EQ(read_prefix(spec_, ring_, 5).bytes, 100U);
  write_prefix(spec_, ring_, 5, 101, 0);
  EXPECT_NE(message_of([&] { read_prefix(spec_, ring_, 5); }).find("message 5 claims 101 bytes, a slot has 100"), std::string::npos);
  write_prefix(spec_, ring_, 5, 10, 0);
  ring_[0] = std::byte{0};
  EXPECT_NE(message_of([&] { read_prefix(spec_, ring_, 5); }).find("not a message of a link"), std::string::npos);
}

}  // namespace
}  // namespace millrace::cluster
