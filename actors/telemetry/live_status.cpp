#include "actors/telemetry/live_status.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "actors/pipeline.hpp"
#include "actors/telemetry/live_page.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

constexpr const char* live_status_component = "actors.status";
constexpr std::size_t shortest_token = 16;

double seconds_between(std::int64_t begin, std::int64_t end) { return static_cast<double>(std::max<std::int64_t>(0, end - begin)) * 1e-9; }

LiveRank live_rank(int process, const ProgressSlot::Reading& reading, std::int64_t now) {
  LiveRank rank;
  rank.process = process;
  rank.known = reading.since > 0;
  rank.progress = reading.progress;
  if (!rank.known) return rank;
  rank.seconds = seconds_between(reading.since, now);
  rank.heard_seconds = seconds_between(reading.reported, now);
  return rank;
}

}  // namespace

LiveStatus::LiveStatus(LiveRun run, Session& session, const Pipeline& pipeline)
    : run_(std::move(run)),
      session_(session),
      pipeline_(pipeline),
      begin_(runtime::steady_now()),
      others_(static_cast<std::size_t>(run_.ranks)),
      history_(run_.copies) {
  session_.on_heard(this, [this](std::span<const cluster::Progress> progress) { receive(progress); });
}

LiveStatus::~LiveStatus() { session_.on_heard(this, nullptr); }

/// Runs on the control thread.
void LiveStatus::receive(std::span<const cluster::Progress> progress) {
  const std::int64_t now = runtime::steady_now();
  for (const auto& heard : progress) {
    if (heard.rank < 0 || static_cast<std::size_t>(heard.rank) >= others_.size()) continue;
    const auto since = now - std::int64_t{std::max(heard.for_ms, 0)} * 1'000'000;
    others_[static_cast<std::size_t>(heard.rank)].write({heard, since, now});
  }
}

LiveView LiveStatus::view() const {
  LiveView view;
  view.run = run_;
  view.totals = history_.read();
  const auto& topology = session_.topology();
  for (int rank = 0; rank < run_.ranks; ++rank) {
    const auto reading = topology.hosts(rank) ? pipeline_.progress(static_cast<std::size_t>(rank - topology.first_rank()))
                                              : others_[static_cast<std::size_t>(rank)].read();
    view.ranks.push_back(live_rank(topology.process_of(rank), reading, runtime::steady_now()));
    if (topology.hosts(rank)) view.ranks.back().heard_seconds = 0;
  }
  view.up_seconds = seconds_between(begin_, runtime::steady_now());
  return view;
}

std::vector<cluster::StatusPage> LiveStatus::pages() const {
  const auto max_age = std::chrono::milliseconds(100);  // what the other processes report is no newer
  return {{"/", "text/html; charset=utf-8", live_page, std::chrono::hours(24)},
          {"/status", "application/json", [this] { return status_json(view()); }, max_age},
          {"/metrics", "text/plain; version=0.0.4; charset=utf-8", [this] { return metrics_text(view()); }, max_age}};
}

std::string read_token(const cluster::StatusConfig& config) {
  std::string token;
  if (config.token_file.empty()) return token;
  token = runtime::read_text_file(config.token_file, 4096, ExitCode::config);
  struct stat status {};
  MILLRACE_CHECK(stat(config.token_file.c_str(), &status) == 0 && (status.st_mode & S_IROTH) == 0, ExitCode::config, live_status_component,
                 "status.token_file = {}: other users of this machine can read it, expected: chmod 600", config.token_file);
  token.erase(token.find_last_not_of("\r\n ") + 1);
  const bool legible = std::all_of(token.begin(), token.end(), [](char letter) { return letter > ' ' && letter < 127; });
  MILLRACE_CHECK(legible && token.size() >= shortest_token, ExitCode::config, live_status_component,
                 "status.token_file = {} has {} characters, expected one line of {} or more without blanks (openssl rand -hex 16)",
                 config.token_file, token.size(), shortest_token);
  return token;
}

}  // namespace millrace::actors
