#include <gtest/gtest.h>

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
class InProcessLink : public testing::Test {
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
            "[cluster.link] channel 7 (gradient, rank 0 -> rank 1): message 1 is sent where 0 was due");
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
  EXPECT_NE(open({{spec_, ring_, {}, nullptr, &events_}}).find("nobody"), std::string::npos);
  EXPECT_NE(open({{spec_, ring_, {}, &events_, &events_}, {spec_, ring_, {}, &events_, &events_}}).find("twice"), std::string::npos);
}

TEST_F(InProcessLink, AMixUpOnTheWireIsANamedError) {
  write_prefix(spec_, ring_, 5, 10, 0);
  EXPECT_EQ(read_prefix(spec_, ring_, 5).bytes, 10u);
  EXPECT_EQ(message_of([&] { read_prefix(spec_, ring_, 6); }),
            "[cluster.link] channel 7 (gradient, rank 0 -> rank 1): message 5 of channel 7 arrived where message 6 was due");
  ring_[0] = std::byte{0};
  EXPECT_NE(message_of([&] { read_prefix(spec_, ring_, 5); }).find("no message of a link"), std::string::npos);
}

}  // namespace
}  // namespace millrace::cluster
