#pragma once

#include <string>
#include <vector>

namespace millrace::cluster {

/// One address of a network interface that is up.
struct InterfaceAddress {
  std::string interface;
  std::string address;  ///< numeric, as inet_pton reads it
  bool loopback = false;
  bool v4 = false;
};

/// The addresses of this host without link-local ones, IPv4 before IPv6. Empty where the system does not list them.
/// getifaddrs is called directly because Asio has no list of interfaces.
std::vector<InterfaceAddress> interface_addresses();

}  // namespace millrace::cluster
