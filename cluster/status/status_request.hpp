#pragma once

#include <string>
#include <string_view>

#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {

/// A parsed request target: "/status?token=a%2Fb".
struct StatusTarget {
  std::string path;   ///< "/status"
  std::string token;  ///< "a/b"; empty if there is none
};
[[nodiscard]] StatusTarget parse_target(std::string_view target);

/// Whether a Host header is "localhost" or an IP address, with or without a port. Any other name could have been assigned to our
/// address by someone else (DNS rebinding).
[[nodiscard]] bool is_own_host(std::string_view host);

/// Whether a request comes from a page of this server, by its Origin and Host headers, or not from a page at all, in which case
/// it has no Origin.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host);

/// The secret that clients must present.
class StatusToken {
 public:
  /// Empty: no token is required.
  explicit StatusToken(std::string_view token);
  [[nodiscard]] bool required() const noexcept { return required_; }
  /// Compares MACs under a random key, so that the time reveals nothing about the token.
  [[nodiscard]] bool matches(std::string_view given) const;
  /// "Bearer TOKEN", the scheme in any case.
  [[nodiscard]] bool matches_header(std::string_view authorization) const;

 private:
  bool required_;
  Hmac mac_;
  Bytes32 right_;
};

}  // namespace millrace::cluster
