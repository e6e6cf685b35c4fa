#include "cluster/host/network_interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace millrace::cluster {

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
    if (std::strchr(text, '%') != nullptr) continue;  // link-local: valid with its interface only
    found.push_back({entry->ifa_name, text, (entry->ifa_flags & IFF_LOOPBACK) != 0, family == AF_INET});
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(), [](const auto& left, const auto& right) { return left.v4 > right.v4; });
  return found;
}

}  // namespace millrace::cluster
