#include "cluster/control/peer_failure.hpp"

#include <algorithm>
#include <cstring>

#include "cluster/control/sleep_watch.hpp"
#include "cluster/control/wire_format.hpp"

namespace millrace::cluster {
namespace {

/// Precedes the texts and the records.
struct Head {
  std::int32_t process = -1;
  std::uint32_t host_bytes = 0, reason_bytes = 0, records = 0;
  double heard_seconds_ago = 0;
};

}  // namespace

void Progress::set_action(std::string_view text) {
  action.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), action.size() - 1), action.begin());
}

std::string to_text(const Progress& progress) {
  std::string text = fmt::format("rank {}: {}", progress.rank,
                                 std::string_view(progress.action.data(), strnlen(progress.action.data(), progress.action.size())));
  if (progress.action[0] == '\0') text += "idle";
  if (progress.stage >= 0) text += fmt::format(", stage {}", progress.stage);
  if (progress.microbatch >= 0) text += fmt::format(", microbatch {}", progress.microbatch);
  if (progress.step >= 0) text += fmt::format(", step {}", progress.step);
  return text;
}

std::string describe(const Topology& topology, std::span<const PeerFailure> losses, const std::string& waits, const std::string& advice) {
  std::string text = "[cluster] ";
  for (std::size_t index = 0; index < losses.size(); ++index) {
    const PeerFailure& loss = losses[index];
    text += fmt::format("{}process {} on {} ({}) was lost: {}", index == 0 ? "" : "; ", loss.process, loss.host,
                        ranks_text(topology, loss.process), loss.reason);
    for (std::size_t record = 0; record < loss.doing.size(); ++record) {
      text += (record == 0 ? ". Last known: " : "; ") + to_text(loss.doing[record]);
    }
    if (!loss.doing.empty()) text += fmt::format(" ({:.2f} s before)", loss.heard_seconds_ago);
  }
  if (!waits.empty()) text += ". " + waits;
  return text + ". " + (advice.empty() ? "The job ends" : advice);
}

std::string describe_sleep(const Topology& topology, std::span<const PeerFailure> losses, double slept, std::int64_t timeout_ms,
                           const std::string& advice) {
  const int own = topology.process();
  std::string text = fmt::format("[cluster] process {} on {} ({}) {}. ", own, host_name(), ranks_text(topology, own),
                                 sleep_text(std::chrono::duration_cast<SleepWatch::Time>(std::chrono::duration<double>(slept))));
  text += "Meanwhile the connection to ";
  for (std::size_t index = 0; index < losses.size(); ++index)
    text += fmt::format("{}process {} on {} ({})", index == 0 ? "" : ", ", losses[index].process, losses[index].host,
                        ranks_text(topology, losses[index].process));
  return text +
         fmt::format(
             " closed. Who is silent for more than cluster.timeout_ms = {} counts as lost, and the other processes end: look for the "
             "cause here, not there. {}",
             timeout_ms, advice.empty() ? "The job ends" : advice);
}

std::vector<std::byte> peer_failure_bytes(const PeerFailure& loss) {
  const Head head{loss.process, static_cast<std::uint32_t>(loss.host.size()), static_cast<std::uint32_t>(loss.reason.size()),
                  static_cast<std::uint32_t>(loss.doing.size()), loss.heard_seconds_ago};
  std::vector<std::byte> out;
  for (const auto part : {bytes_of(head), bytes_of(std::string_view(loss.host)), bytes_of(std::string_view(loss.reason)),
                          std::as_bytes(std::span(loss.doing))}) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

PeerFailure peer_failure_from_bytes(std::span<const std::byte> bytes) {
  Head head;
  if (bytes.size() < sizeof head) return {};
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes = bytes.subspan(sizeof head);
  const std::size_t expected = std::size_t{head.host_bytes} + head.reason_bytes + std::size_t{head.records} * sizeof(Progress);
  if (bytes.size() != expected) return {};
  PeerFailure loss;
  loss.process = head.process;
  loss.heard_seconds_ago = head.heard_seconds_ago;
  loss.host = text_of(bytes.first(head.host_bytes));
  loss.reason = text_of(bytes.subspan(head.host_bytes, head.reason_bytes));
  loss.doing.resize(head.records);
  if (head.records > 0) {
    std::memcpy(loss.doing.data(), bytes.data() + head.host_bytes + head.reason_bytes, head.records * sizeof(Progress));
  }
  return loss;
}

bool is_on_one_host(const Launch& launch, int processes) { return launch.processes == 1 || launch.local_processes >= processes; }

bool is_beside_center(const Launch& launch, int process, int processes) {
  return is_on_one_host(launch, processes) || process == launch.local_process;
}

bool reports_peer_failures(const Launch& launch, int process, const std::vector<bool>& is_lost) {
  const auto processes = static_cast<int>(is_lost.size());
  if (process == 0 || is_on_one_host(launch, processes))
    return std::find(is_lost.begin(), is_lost.end(), false) - is_lost.begin() == process;
  return is_lost[0] && launch.local_process == (is_beside_center(launch, process, processes) ? 1 : 0);
}

}  // namespace millrace::cluster
