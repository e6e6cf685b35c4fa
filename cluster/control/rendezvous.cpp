#include "cluster/control/rendezvous.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <thread>
#include <utility>

// <utility> must precede it: Boost 1.74 lacks the include for std::exchange.
#include <boost/asio.hpp>

#include "cluster/host/log.hpp"
#include "cluster/host/network_interfaces.hpp"
#include "cluster/topology.hpp"
#include "kernels/base/check.hpp"

namespace millrace::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr auto connect_limit = Milliseconds(1000);
constexpr auto first_handshake_limit = Milliseconds(500);  // an address may lead to a listener that stays silent; doubled in each round
constexpr auto max_handshake_limit = Milliseconds(5000);
constexpr auto round_pause = Milliseconds(100);

/// The address that the user's `cluster.interface` names.
asio::ip::address configured_address(const std::string& interface) {
  error_code error;
  if (const auto address = asio::ip::make_address(interface, error); !error) return address;
  std::string names;
  for (const InterfaceAddress& found : interface_addresses()) {
    if (found.interface == interface) return asio::ip::make_address(found.address);
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", found.interface, found.address);
  }
  fail(ExitCode::start, "cluster.rendezvous", "cluster.interface = \"{}\" is neither an address nor an interface of {}; it has {}",
       interface, host_name(), names);
}

void add_address(Rendezvous& rendezvous, const std::string& address) {
  auto& slots = rendezvous.address;
  if (rendezvous.addresses == slots.size() || address.size() >= slots[0].size()) return;
  std::copy(address.begin(), address.end(), slots[rendezvous.addresses++].begin());
}

void copy_host_name(Rendezvous& rendezvous) {
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), rendezvous.host.size() - 1), rendezvous.host.begin());
}

/// Programs that this process starts must not inherit the socket: it would stay open after this process has ended. Asio does not set this.
template <class Socket>
void close_on_exec(Socket& socket) {
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

/// A TCP connection whose blocking calls end at a deadline: each starts the asynchronous operation and runs the context until then.
class TimedSocket {
 public:
  error_code connect(const tcp::endpoint& endpoint, Milliseconds limit) {
    error_code result;
    socket_.open(endpoint.protocol(), result);
    if (result) return result;
    close_on_exec(socket_);
    socket_.async_connect(endpoint, [&result](const error_code& error) { result = error; });
    return run_until(Clock::now() + limit) ? result : asio::error::timed_out;
  }

  bool write(FrameKind kind, std::span<const std::byte> payload, Clock::time_point deadline) {
    std::vector<std::byte> frame;
    append_frame(frame, {.kind = static_cast<std::uint16_t>(kind)}, payload, nullptr);
    error_code result;
    asio::async_write(socket_, asio::buffer(frame), [&result](const error_code& error, std::size_t) { result = error; });
    return run_until(deadline) && !result;
  }

  /// The payload of the next frame if it is of this kind and length. The length is checked before the payload is read.
  std::optional<std::vector<std::byte>> read(FrameKind kind, std::size_t bytes, Clock::time_point deadline) {
    std::vector<std::byte> frame(frame_header_bytes + bytes + frame_mac_bytes);
    if (!read(std::span(frame).first(frame_header_bytes), deadline)) return std::nullopt;
    const FrameHeader header = read_header(std::span<const std::byte>(frame).first<frame_header_bytes>());
    if (header.kind != static_cast<std::uint16_t>(kind) || header.bytes != bytes) return std::nullopt;
    if (!read(std::span(frame).subspan(frame_header_bytes), deadline)) return std::nullopt;
    return std::vector<std::byte>(frame.begin() + frame_header_bytes, frame.end() - frame_mac_bytes);
  }

  /// Gives the descriptor away, for a socket of another context.
  [[nodiscard]] int release() { return socket_.release(); }

 private:
  bool read(std::span<std::byte> out, Clock::time_point deadline) {
    error_code result;
    asio::async_read(socket_, asio::buffer(out.data(), out.size()), [&result](const error_code& error, std::size_t) { result = error; });
    return run_until(deadline) && !result;
  }

  /// Returns false if the operation was not done by the deadline. It has ended in either case, so what it refers to may go.
  bool run_until(Clock::time_point deadline) {
    io_.restart();
    io_.run_until(deadline);
    if (io_.stopped()) return true;
    error_code ignored;
    socket_.close(ignored);
    io_.run();
    return false;
  }

  asio::io_context io_{1};
  tcp::socket socket_{io_};
};

/// Proves the secret to the listener and has it proven. Returns the reason of a failure; empty if the connection is established.
std::string shake_hands(TimedSocket& socket, Connection& connection, const Rendezvous& rendezvous, int process, Milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  Hello hello;
  hello.process = static_cast<std::uint32_t>(process);
  hello.pid = static_cast<std::uint32_t>(getpid());
  hello.nonce = random_bytes32();
  const std::string host = host_name();
  std::copy_n(host.begin(), std::min(host.size(), hello.host.size() - 1), hello.host.begin());
  const char* const not_process_0 = "what listens there is not process 0 of this job";
  if (!socket.write(FrameKind::hello, bytes_of(hello), deadline)) return not_process_0;
  const auto challenge = socket.read(FrameKind::challenge, 2 * sizeof(Bytes32), deadline);
  if (!challenge) return not_process_0;
  Bytes32 nonce, proof;
  std::memcpy(nonce.data(), challenge->data(), nonce.size());
  std::memcpy(proof.data(), challenge->data() + nonce.size(), proof.size());
  const Handshake handshake(rendezvous.secret, hello, nonce);
  if (!equal(proof, handshake.listener_proof)) return "it does not know this job's secret";
  // It is process 0, and counts this process as connected when it has the proof. To give up now, because a busy machine has used up the
  // time, would look like the end of this process.
  if (!socket.write(FrameKind::proof, bytes_of(handshake.connector_proof), Clock::now() + max_handshake_limit))
    return "process 0 closed the connection";
  connection.listener_key = handshake.listener_key;
  connection.connector_key = handshake.connector_key;
  return "";
}

/// Process 0's addresses in the order in which to try them. Hosts may share a name by accident, so the others follow the loopback.
std::vector<asio::ip::address> addresses_to_try(const Rendezvous& rendezvous) {
  std::vector<asio::ip::address> addresses;
  for (std::size_t index = 0; index < rendezvous.addresses; ++index) {
    error_code error;
    const auto address = asio::ip::make_address(rendezvous.address[index].data(), error);
    if (!error) addresses.push_back(address);
  }
  if (host_name() == rendezvous.host.data()) {
    const asio::ip::address loopback = asio::ip::address_v4::loopback();
    std::stable_partition(addresses.begin(), addresses.end(), [&](const auto& address) { return address == loopback; });
  }
  return addresses;
}

}  // namespace

struct Listener::State {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  Rendezvous rendezvous;
  bool v6 = false;
};

Listener::Listener(const ClusterConfig& config, bool one_host) : state_(std::make_unique<State>()) {
  const asio::ip::address bound = !config.interface.empty() ? configured_address(config.interface)
                                  : one_host                ? asio::ip::address_v4::loopback()
                                                            : asio::ip::address_v4::any();
  const tcp::endpoint endpoint(bound, 0);
  Rendezvous& rendezvous = state_->rendezvous;
  try {
    state_->acceptor.open(endpoint.protocol());
    close_on_exec(state_->acceptor);
    state_->acceptor.bind(endpoint);
    state_->acceptor.listen(1024);
    rendezvous.port = state_->acceptor.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    fail(ExitCode::start, "cluster.rendezvous", "process 0 cannot listen on {}: {}", bound.to_string(), error.code().message());
  }
  state_->v6 = bound.is_v6();
  rendezvous.secret = random_bytes32();
  rendezvous.pid = static_cast<std::uint32_t>(getpid());
  copy_host_name(rendezvous);
  if (bound != asio::ip::address_v4::any()) {
    add_address(rendezvous, bound.to_string());
    return;
  }
  for (const InterfaceAddress& found : interface_addresses()) {
    if (found.v4 && !found.loopback) add_address(rendezvous, found.address);
  }
  add_address(rendezvous, asio::ip::address_v4::loopback().to_string());
}

Listener::~Listener() = default;

const Rendezvous& Listener::rendezvous() const noexcept { return state_->rendezvous; }

bool Listener::is_v6() const noexcept { return state_->v6; }

int Listener::release() { return state_->acceptor.release(); }

Connection connect_to(const Rendezvous& rendezvous, int process, const ClusterConfig& config) {
  const auto deadline = Clock::now() + Milliseconds(config.start_timeout_ms);
  const auto addresses = addresses_to_try(rendezvous);
  std::string tried;
  auto patience = first_handshake_limit;
  do {
    tried.clear();
    for (const asio::ip::address& address : addresses) {
      TimedSocket socket;
      Connection connection;
      std::string reason;
      if (const error_code error = socket.connect({address, rendezvous.port}, connect_limit)) {
        reason = error.message();
      } else {
        reason = shake_hands(socket, connection, rendezvous, process, patience);
      }
      log_debug({}, "control link: process 0 at {}:{}: {}", address.to_string(), rendezvous.port, reason.empty() ? "connected" : reason);
      if (reason.empty()) {
        connection.descriptor = socket.release();
        connection.v6 = address.is_v6();
        return connection;
      }
      tried += fmt::format("{}{}:{} ({})", tried.empty() ? "" : ", ", address.to_string(), rendezvous.port, reason);
    }
    patience = std::min(2 * patience, max_handshake_limit);
    std::this_thread::sleep_for(round_pause);
  } while (Clock::now() < deadline);
  fail(ExitCode::start, "cluster.rendezvous",
       "process {} on {} cannot reach process 0 on {}: tried {}; cluster.interface names the interface to use", process, host_name(),
       rendezvous.host.data(), tried);
}

}  // namespace millrace::cluster
