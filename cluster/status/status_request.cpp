#include "cluster/status/status_request.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace millrace::cluster {
namespace {

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  const char lower = static_cast<char>(letter | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0;
    out += escaped ? static_cast<char>(16 * digit_of(text[i + 1]) + digit_of(text[i + 2])) : text[i];
    if (escaped) i += 2;
  }
  return out;
}

bool equal_in_any_case(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

}  // namespace

StatusTarget parse_target(std::string_view target) {
  StatusTarget out;
  const auto question = target.find('?');
  out.path = target.substr(0, question);
  std::string_view query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  while (!query.empty()) {
    const auto end = std::min(query.find('&'), query.size());
    constexpr std::string_view key = "token=";
    if (query.substr(0, end).starts_with(key)) out.token = percent_decoded(query.substr(key.size(), end - key.size()));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return out;
}

bool is_own_host(std::string_view host) {
  const auto port = host.rfind(':');
  // A colon inside brackets belongs to the address.
  if (port != std::string_view::npos && host.find(']', port) == std::string_view::npos) host = host.substr(0, port);
  if (equal_in_any_case(host, "localhost")) return true;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string text(host);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 || inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  constexpr std::string_view scheme = "http://";
  return origin.empty() || (origin.starts_with(scheme) && equal_in_any_case(origin.substr(scheme.size()), host));
}

StatusToken::StatusToken(std::string_view token) : required_(!token.empty()), mac_(random_bytes32()), right_(mac_(bytes_of(token))) {}

bool StatusToken::matches(std::string_view given) const { return !required_ || equal(mac_(bytes_of(given)), right_); }

bool StatusToken::matches_header(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (!equal_in_any_case(authorization.substr(0, scheme.size()), scheme)) return !required_;
  return matches(authorization.substr(scheme.size()));
}

}  // namespace millrace::cluster
