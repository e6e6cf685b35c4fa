#include "cluster/control/wire_format.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "kernels/base/check.hpp"

namespace millrace::cluster {

static_assert(std::endian::native == std::endian::little, "frames are little endian");

Bytes32 random_bytes32() {
  Bytes32 bytes;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + done, bytes.size() - done, 0);
    MILLRACE_CHECK(got > 0 || errno == EINTR, ExitCode::start, "cluster.wire_format", "getrandom: {}", std::strerror(errno));
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return bytes;
}

bool equal(const Bytes32& left, const Bytes32& right) { return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0; }

struct Hmac::State {
  EVP_MAC_CTX* context = nullptr;
  ~State() { EVP_MAC_CTX_free(context); }
};

Hmac::Hmac(const Bytes32& key) : state_(std::make_unique<State>()) {
  EVP_MAC* algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  state_->context = EVP_MAC_CTX_new(algorithm);
  EVP_MAC_free(algorithm);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
  const bool ready = state_->context != nullptr &&
                     EVP_MAC_init(state_->context, reinterpret_cast<const unsigned char*>(key.data()), key.size(), parameters) == 1;
  MILLRACE_CHECK(ready, ExitCode::start, "cluster.wire_format", "this libcrypto offers no HMAC-SHA256");
}

Hmac::Hmac(Hmac&&) noexcept = default;
Hmac& Hmac::operator=(Hmac&&) noexcept = default;
Hmac::~Hmac() = default;

Bytes32 Hmac::operator()(std::span<const std::byte> text) const {
  Bytes32 mac;
  std::size_t length = 0;
  // Without a key argument, init restarts with the key that it has.
  const bool done = EVP_MAC_init(state_->context, nullptr, 0, nullptr) == 1 &&
                    EVP_MAC_update(state_->context, reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1 &&
                    EVP_MAC_final(state_->context, reinterpret_cast<unsigned char*>(mac.data()), &length, mac.size()) == 1;
  MILLRACE_CHECK(done && length == mac.size(), ExitCode::internal, "cluster.wire_format", "HMAC-SHA256 failed");
  return mac;
}

void append_frame(std::vector<std::byte>& out, FrameHeader header, std::span<const std::byte> payload, const Hmac* hmac) {
  MILLRACE_CHECK(payload.size() <= frame_limit, ExitCode::internal, "cluster.wire_format", "a frame of {} bytes, the limit is {}",
                 payload.size(), frame_limit);
  header.bytes = static_cast<std::uint32_t>(payload.size());
  const std::size_t begin = out.size();
  out.resize(begin + frame_header_bytes + payload.size() + frame_mac_bytes);
  std::byte* at = out.data() + begin;
  std::memset(at, 0, frame_header_bytes);
  std::memcpy(at, &header.bytes, 4);
  std::memcpy(at + 4, &header.kind, 2);
  std::memcpy(at + 6, &header.type, 2);
  std::memcpy(at + 8, &header.from, 2);
  std::memcpy(at + 10, &header.to, 2);
  std::memcpy(at + 16, &header.sequence, 8);
  if (!payload.empty()) std::memcpy(at + frame_header_bytes, payload.data(), payload.size());
  const std::size_t signed_bytes = frame_header_bytes + payload.size();
  const Bytes32 mac = hmac != nullptr ? (*hmac)({at, signed_bytes}) : Bytes32{};
  std::memcpy(at + signed_bytes, mac.data(), mac.size());
}

FrameHeader read_header(std::span<const std::byte, frame_header_bytes> bytes) {
  FrameHeader header;
  const std::byte* at = bytes.data();
  std::memcpy(&header.bytes, at, 4);
  std::memcpy(&header.kind, at + 4, 2);
  std::memcpy(&header.type, at + 6, 2);
  std::memcpy(&header.from, at + 8, 2);
  std::memcpy(&header.to, at + 10, 2);
  std::memcpy(&header.sequence, at + 16, 8);
  return header;
}

bool authentic(std::span<const std::byte> frame, const Hmac& hmac) {
  Bytes32 mac;
  std::memcpy(mac.data(), frame.data() + frame.size() - mac.size(), mac.size());
  return equal(mac, hmac(frame.first(frame.size() - mac.size())));
}

Handshake::Handshake(const Bytes32& secret, const Hello& hello, const Bytes32& listener_nonce) {
  const Hmac hmac(secret);
  const auto derive = [&](std::string_view purpose) {
    std::vector<std::byte> text;
    for (const auto part : {bytes_of(purpose), bytes_of(hello), bytes_of(listener_nonce)})
      text.insert(text.end(), part.begin(), part.end());
    return hmac(text);
  };
  listener_proof = derive("millrace listener");
  connector_proof = derive("millrace connector");
  listener_key = derive("millrace listener key");
  connector_key = derive("millrace connector key");
}

}  // namespace millrace::cluster
