#include "cluster/control/rendezvous.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr int address_limit_ms = 1000;
constexpr auto first_handshake_limit = Milliseconds(500);  // an address may lead to somebody who says nothing; twice as long in each round
constexpr auto handshake_limit = Milliseconds(5000);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::optional<SocketAddress> parse_address(const char* text, std::uint16_t port) {
  SocketAddress out;
  auto* four = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    out.length = sizeof *four;
  } else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    out.length = sizeof *six;
  } else {
    return std::nullopt;
  }
  return out;
}

struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool loopback;
  bool four;
};

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST] = {};
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(entry->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::strchr(text, '%') != nullptr) continue;  // link-local
    found.push_back({entry->ifa_name, text, (entry->ifa_flags & IFF_LOOPBACK) != 0, family == AF_INET});
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(), [](const auto& left, const auto& right) { return left.four > right.four; });
  return found;
}

/// The address that the user's `cluster.interface` means.
std::string chosen_address(const std::string& interface) {
  if (parse_address(interface.c_str(), 0)) return interface;
  std::string names;
  for (const InterfaceAddress& found : interface_addresses()) {
    if (found.interface == interface) return found.address;
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", found.interface, found.address);
  }
  fail(ExitCode::start, "cluster.rendezvous", "cluster.interface = \"{}\" is neither an address nor an interface of {}; it has {}",
       interface, host_name(), names);
}

void add_address(Rendezvous& rendezvous, const std::string& address) {
  auto& place = rendezvous.address;
  if (rendezvous.addresses == place.size() || address.size() >= place[0].size()) return;
  std::copy(address.begin(), address.end(), place[rendezvous.addresses++].begin());
}

bool wait_for(int descriptor, short events, Milliseconds limit) {
  pollfd entry{descriptor, events, 0};
  int ready = 0;
  do {
    ready = poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(0, limit.count())));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// A connected socket, or -1 with the reason.
int connect_socket(const SocketAddress& address, Milliseconds limit, std::string& reason) {
  const int descriptor = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int error = errno;
  if (descriptor >= 0) {
    error = connect(descriptor, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ETIMEDOUT;
      if (wait_for(descriptor, POLLOUT, limit)) getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return descriptor;
    close(descriptor);
  }
  reason = std::strerror(error);
  return -1;
}

bool transfer(int descriptor, std::byte* data, std::size_t bytes, bool reading, Clock::time_point deadline) {
  while (bytes > 0) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || !wait_for(descriptor, reading ? POLLIN : POLLOUT, left)) return false;
    const ssize_t moved = reading ? recv(descriptor, data, bytes, 0) : send(descriptor, data, bytes, MSG_NOSIGNAL);
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (moved > 0) data += moved, bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

bool write_frame(int descriptor, FrameKind kind, std::span<const std::byte> payload, Clock::time_point deadline) {
  std::vector<std::byte> frame;
  append_frame(frame, {.kind = static_cast<std::uint16_t>(kind)}, payload, nullptr);
  return transfer(descriptor, frame.data(), frame.size(), false, deadline);
}

std::optional<std::vector<std::byte>> read_frame(int descriptor, FrameKind kind, std::size_t bytes, Clock::time_point deadline) {
  std::vector<std::byte> frame(frame_header_bytes + bytes + frame_mac_bytes);
  if (!transfer(descriptor, frame.data(), frame_header_bytes, true, deadline)) return std::nullopt;
  const FrameHeader header = read_header(std::span<const std::byte>(frame).first<frame_header_bytes>());
  if (header.kind != static_cast<std::uint16_t>(kind) || header.bytes != bytes) return std::nullopt;
  if (!transfer(descriptor, frame.data() + frame_header_bytes, bytes + frame_mac_bytes, true, deadline)) return std::nullopt;
  return std::vector<std::byte>(frame.begin() + frame_header_bytes, frame.end() - frame_mac_bytes);
}

enum class Answer { accepted, nobody, refused };

Answer shake_hands(Connection& connection, const Rendezvous& rendezvous, int process, Milliseconds limit, std::string& reason) {
  const auto deadline = Clock::now() + limit;
  Hello hello;
  hello.process = static_cast<std::uint32_t>(process);
  hello.pid = static_cast<std::uint32_t>(getpid());
  hello.nonce = random_bytes32();
  const std::string host = host_name();
  std::copy(host.begin(), host.end(), hello.host.begin());
  reason = "what listens there is not process 0 of this job";
  if (!write_frame(connection.descriptor, FrameKind::hello, bytes_of(hello), deadline)) return Answer::nobody;
  const auto challenge = read_frame(connection.descriptor, FrameKind::challenge, 2 * sizeof(Bytes32), deadline);
  if (!challenge) return Answer::nobody;
  Bytes32 nonce, proof;
  std::memcpy(nonce.data(), challenge->data(), nonce.size());
  std::memcpy(proof.data(), challenge->data() + nonce.size(), proof.size());
  const Handshake handshake(rendezvous.secret, hello, nonce);
  reason = "it does not know this job's secret";
  if (!equal(proof, handshake.listener_proof)) return Answer::refused;
  reason = "process 0 closed the connection";
  if (!write_frame(connection.descriptor, FrameKind::proof, bytes_of(handshake.connector_proof), deadline)) return Answer::nobody;
  connection.listener_key = handshake.listener_key;
  connection.connector_key = handshake.connector_key;
  return Answer::accepted;
}

}  // namespace

Listener::Listener(const ClusterConfig& config, bool one_host) {
  const std::string bound = !config.interface.empty() ? chosen_address(config.interface) : one_host ? "127.0.0.1" : "0.0.0.0";
  const auto address = parse_address(bound.c_str(), 0);
  descriptor_ = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  SocketAddress own;
  own.length = sizeof own.storage;
  const bool ready = descriptor_ >= 0 && bind(descriptor_, reinterpret_cast<const sockaddr*>(&address->storage), address->length) == 0 &&
                     listen(descriptor_, 1024) == 0 &&
                     getsockname(descriptor_, reinterpret_cast<sockaddr*>(&own.storage), &own.length) == 0;
  MILLRACE_CHECK(ready, ExitCode::start, "cluster.rendezvous", "process 0 cannot listen on {}: {}", bound, std::strerror(errno));
  rendezvous_.port = ntohs(own.storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&own.storage)->sin_port
                                                            : reinterpret_cast<sockaddr_in6*>(&own.storage)->sin6_port);
  rendezvous_.secret = random_bytes32();
  rendezvous_.pid = static_cast<std::uint32_t>(getpid());
  const std::string host = host_name();
  std::copy(host.begin(), host.end(), rendezvous_.host.begin());
  if (bound != "0.0.0.0") {
    add_address(rendezvous_, bound);
    return;
  }
  for (const InterfaceAddress& found : interface_addresses()) {
    if (found.four && !found.loopback) add_address(rendezvous_, found.address);
  }
  add_address(rendezvous_, "127.0.0.1");
}

Listener::~Listener() {
  if (descriptor_ >= 0) close(descriptor_);
}

int Listener::take() noexcept { return std::exchange(descriptor_, -1); }

Connection connect_to(const Rendezvous& rendezvous, int process, const ClusterConfig& config) {
  const auto deadline = Clock::now() + Milliseconds(config.start_timeout_ms);
  std::vector<std::string> addresses;
  for (int index = 0; index < rendezvous.addresses; ++index)
    addresses.emplace_back(rendezvous.address[static_cast<std::size_t>(index)].data());
  if (host_name() == rendezvous.host.data()) {
    // Loopback first. Hosts may share a name by accident, so the others are still tried.
    std::stable_partition(addresses.begin(), addresses.end(), [](const std::string& address) { return address == "127.0.0.1"; });
  }
  std::string tried;
  auto patience = first_handshake_limit;
  do {
    tried.clear();
    for (const std::string& text : addresses) {
      const auto address = parse_address(text.c_str(), rendezvous.port);
      if (!address) continue;
      std::string reason;
      Connection connection;
      connection.descriptor = connect_socket(*address, Milliseconds(address_limit_ms), reason);
      if (connection.descriptor >= 0) {
        if (shake_hands(connection, rendezvous, process, patience, reason) == Answer::accepted) return connection;
        close(connection.descriptor);
      }
      tried += fmt::format("{}{}:{} ({})", tried.empty() ? "" : ", ", text, rendezvous.port, reason);
    }
    patience = std::min(2 * patience, handshake_limit);
    std::this_thread::sleep_for(Milliseconds(100));
  } while (Clock::now() < deadline);
  fail(ExitCode::start, "cluster.rendezvous",
       "process {} on {} cannot reach process 0 on {}: tried {}; cluster.interface names the interface to use", process, host_name(),
       rendezvous.host.data(), tried);
}

}  // namespace millrace::cluster
