#include "runtime/schedule/hash.hpp"

#include "runtime/schedule/cell.hpp"

namespace millrace::runtime {

std::string canonical_text(const Schedule& schedule) {
  std::string text = fmt::format("#millrace-schedule 1\n#M {}\n#ranks", schedule.microbatches);
  for (int stage = 0; stage < schedule.placement.stages(); ++stage) text += fmt::format(" {}", schedule.placement.rank_of(StageId{stage}));
  text += "\n";
  // A mirror has the same map of stages to ranks as a V, but two chains.
  if (schedule.placement.replicas() > 1) text += fmt::format("#replicas {}\n", schedule.placement.replicas());
  for (const auto& list : schedule.ranks) text += print_row(list) + "\n";
  return text;
}

std::uint64_t content_hash(const Schedule& schedule) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : canonical_text(schedule)) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace millrace::runtime
