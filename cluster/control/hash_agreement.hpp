#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cluster/topology.hpp"

namespace millrace::cluster {

/// Named hashes of one process; an empty one is not compared, since its process does not know the value.
using NamedHashes = std::map<std::string, std::string>;

/// For the message between processes, and its inverse.
[[nodiscard]] std::string hashes_text(const NamedHashes& hashes);
[[nodiscard]] NamedHashes parse_hashes(std::string_view text);

/// What differs from process 0, with hash, process and host; empty if all agree. `hashes`: of every process. `host_of`: the host of one.
[[nodiscard]] std::string disagreement(const std::map<int, NamedHashes>& hashes, const Topology& topology,
                                       const std::function<std::string(int process)>& host_of);

}  // namespace millrace::cluster
