#include "cluster/control/wire_format.hpp"

#include <gtest/gtest.h>

#include "cluster/control/peer_failure.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

std::string hexadecimal(const Bytes32& bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

TEST(WireFormat, HmacIsThatOfRfc4231) {
  Bytes32 key{};  // 20 bytes of 0x0b; zeros after a key change nothing
  std::fill(key.begin(), key.begin() + 20, std::byte{0x0b});
  const Hmac hmac(key);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(hexadecimal(hmac(bytes_of(std::string_view("Hi There")))),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  }
}

TEST(WireFormat, AFrameComesBackAndAChangedBitIsSeen) {
  const Hmac hmac(random_bytes32());
  std::vector<std::byte> frame;
  append_frame(frame, {.kind = 5, .type = 77, .from = 2, .to = 3, .sequence = 1234567890123}, bytes_of(std::string_view("payload")), &hmac);
  const FrameHeader header = read_header(std::span<const std::byte>(frame).first<frame_header_bytes>());
  EXPECT_EQ(header.bytes, 7u);
  EXPECT_EQ(header.kind, 5);
  EXPECT_EQ(header.type, 77);
  EXPECT_EQ(header.from, 2);
  EXPECT_EQ(header.to, 3);
  EXPECT_EQ(header.sequence, 1234567890123u);
  EXPECT_TRUE(authentic(frame, hmac));
  for (std::size_t index = 0; index < frame.size(); ++index) {
    frame[index] ^= std::byte{4};
    EXPECT_FALSE(authentic(frame, hmac)) << index;
    frame[index] ^= std::byte{4};
  }
  EXPECT_FALSE(authentic(frame, Hmac(random_bytes32())));
}

TEST(WireFormat, TheHandshakeDependsOnSecretAndNonces) {
  const Bytes32 secret = random_bytes32(), nonce = random_bytes32();
  Hello hello;
  hello.nonce = random_bytes32();
  const Handshake handshake(secret, hello, nonce);
  EXPECT_TRUE(equal(handshake.listener_proof, Handshake(secret, hello, nonce).listener_proof));
  EXPECT_FALSE(equal(handshake.listener_proof, handshake.connector_proof));
  EXPECT_FALSE(equal(handshake.listener_key, handshake.connector_key));
  EXPECT_FALSE(equal(handshake.listener_proof, Handshake(random_bytes32(), hello, nonce).listener_proof));
  EXPECT_FALSE(equal(handshake.connector_key, Handshake(secret, hello, random_bytes32()).connector_key));
}

TEST(WireFormat, ALossComesBackAndAnythingElseIsNone) {
  PeerFailure loss{3, "host-b", "its connection closed", 0.25, {{3, 1, 2, 0, 9, {}}}};
  loss.doing[0].set_action("forward");
  std::vector<std::byte> bytes = peer_failure_bytes(loss);
  const PeerFailure back = peer_failure_from_bytes(bytes);
  EXPECT_EQ(describe(Topology(4, 4, 0), std::span(&back, 1)), describe(Topology(4, 4, 0), std::span(&loss, 1)));
  bytes.pop_back();
  EXPECT_EQ(peer_failure_from_bytes(bytes).process, -1);
  EXPECT_EQ(peer_failure_from_bytes({}).process, -1);
}

TEST(WireFormat, ProgressLeavesOutWhatIsNotKnown) {
  Progress progress{2, -1, -1, 0, -1, {}};
  EXPECT_EQ(to_text(progress), "rank 2: idle");
  progress.set_action(std::string(100, 'a'));
  EXPECT_EQ(to_text(progress), "rank 2: " + std::string(39, 'a'));
}

}  // namespace
}  // namespace millrace::cluster
