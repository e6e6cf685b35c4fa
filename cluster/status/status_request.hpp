#pragma once

#include <string>
#include <string_view>

#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {

/// A request's target taken apart: "/status?token=a%2Fb".
struct StatusTarget {
  std::string path;   ///< "/status"
  std::string token;  ///< "a/b"; empty where there is none
};
[[nodiscard]] StatusTarget parse_target(std::string_view target);

/// Whether a Host header names this machine by itself: "localhost", or an IP address, with or without a port. A name that somebody else
/// gave to our address is not one (DNS rebinding).
[[nodiscard]] bool is_own_host(std::string_view host);

/// Whether a request comes from a page of this server, by its Origin and Host headers, or from no page: then it has no Origin.
[[nodiscard]] bool is_own_origin(std::string_view origin, std::string_view host);

/// The secret that clients must know.
class StatusToken {
 public:
  /// Empty: nothing is wanted.
  explicit StatusToken(std::string_view token);
  [[nodiscard]] bool wanted() const noexcept { return wanted_; }
  /// In a time that tells nothing of the token: MACs under a random key are compared.
  [[nodiscard]] bool matches(std::string_view given) const;
  /// "Bearer TOKEN", the scheme in any case.
  [[nodiscard]] bool matches_header(std::string_view authorization) const;

 private:
  bool wanted_;
  Hmac mac_;
  Bytes32 right_;
};

}  // namespace millrace::cluster
