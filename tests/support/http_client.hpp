#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::tests {

/// One connection to a port of the loopback interface; a test can make it misbehave in any way.
class Connection {
 public:
  explicit Connection(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Connection() { leave(); }
  Connection(Connection&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), connected_(other.connected_) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection& operator=(Connection&&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  void say(std::string_view text) const { static_cast<void>(send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL)); }
  void leave() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

  /// Whether data can be read, or the other side has closed, within this time.
  [[nodiscard]] bool hears(std::chrono::milliseconds limit) const {
    pollfd entry{descriptor_, POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(limit.count())) > 0;
  }

  /// Reads everything until the other side closes; `ended` says whether it did so within the limit.
  struct Heard {
    std::string text;
    bool ended = false;
  };
  [[nodiscard]] Heard listen(std::chrono::milliseconds limit = std::chrono::seconds(60)) const {
    Heard heard;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::array<char, 65536> buffer;
    while (std::chrono::steady_clock::now() < deadline) {
      if (!hears(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()))) break;
      const auto bytes = recv(descriptor_, buffer.data(), buffer.size(), 0);
      heard.ended = bytes <= 0;
      if (heard.ended) break;
      heard.text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    return heard;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

/// A parsed HTTP response.
struct Answer {
  int code = 0;  // 0: there was no response
  std::string head, body;

  explicit Answer(const std::string& text) {
    if (!text.starts_with("HTTP/1.1 ")) return;
    code = std::stoi(text.substr(9, 3));
    const auto end = text.find("\r\n\r\n");
    head = text.substr(0, end);
    if (end != std::string::npos) body = text.substr(end + 4);
  }
  [[nodiscard]] bool has(std::string_view line) const { return head.find(line) != std::string::npos; }
};

inline Answer ask(int port, const std::string& request) {
  const Connection connection(port);
  connection.say(request);
  return Answer(connection.listen().text);
}

inline std::string request_text(const std::string& target, const std::string& more = "", const std::string& method = "GET") {
  return method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more + "\r\n";
}

inline Answer get(int port, const std::string& target, const std::string& more = "") { return ask(port, request_text(target, more)); }

}  // namespace millrace::tests
