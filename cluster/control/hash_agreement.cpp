#include "cluster/control/hash_agreement.hpp"

#include <fmt/format.h>

#include <set>

namespace millrace::cluster {

std::string hashes_text(const NamedHashes& hashes) {
  std::string text;
  for (const auto& [name, hash] : hashes) text += name + "=" + hash + "\n";
  return text;
}

NamedHashes parse_hashes(std::string_view text) {
  NamedHashes hashes;
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), equals = text.find('=');
    if (end == std::string_view::npos || equals > end) break;
    hashes.emplace(text.substr(0, equals), text.substr(equals + 1, end - equals - 1));
    text.remove_prefix(end + 1);
  }
  return hashes;
}

std::string disagreement(const std::map<int, NamedHashes>& hashes, const Topology& topology,
                         const std::function<std::string(int process)>& host_of) {
  std::set<std::string> names;
  for (const auto& [process, named] : hashes)
    for (const auto& [name, hash] : named) names.insert(name);
  const auto hash_at = [&](int process, const std::string& name) {
    const auto& named = hashes.at(process);
    const auto found = named.find(name);
    return found == named.end() ? std::string("none") : found->second;
  };
  std::string text;
  for (const std::string& name : names) {
    const std::string expected = hash_at(0, name);
    for (int process = 1; process < topology.processes(); ++process) {
      const std::string found = hash_at(process, name);
      if (found == expected || found.empty() || expected.empty()) continue;
      text += fmt::format("{}{} differs: process {} on {} ({}) has {}, process 0 on {} has {}", text.empty() ? "[cluster.agree] " : "; ",
                          name, process, host_of(process), ranks_text(topology, process), found, host_of(0), expected);
    }
  }
  return text;
}

}  // namespace millrace::cluster
