#include "runtime/schedule/schedule.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* who = "runtime.schedule";

struct Generator {
  const char* name;
  bool several_chunks;
  Schedule (*make)(const ScheduleRequest&);
};

constexpr Generator generators[] = {
    {"gpipe", false, [](const ScheduleRequest& request) { return gpipe(request.ranks, request.microbatches); }},
    {"1f1b", false, [](const ScheduleRequest& request) { return one_f_one_b(request.ranks, request.microbatches, request.warmup); }},
    {"looped-bfs", true, [](const ScheduleRequest& request) { return looped_bfs(request.ranks, request.chunks, request.microbatches); }},
    {"zb-h1", false, [](const ScheduleRequest& request) { return zb_h1(request.ranks, request.microbatches); }},
};

// Levenshtein distance: how many letters to change, add or drop.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t substitute = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

const Generator& find_generator(std::string_view name) {
  const Generator* nearest = std::begin(generators);
  for (const Generator& generator : generators) {
    if (generator.name == name) return generator;
    if (edit_distance(name, generator.name) < edit_distance(name, nearest->name)) nearest = &generator;
  }
  fail(ExitCode::config, who, "pipeline.schedule = \"{}\" is unknown, did you mean \"{}\"? (known: {})", name, nearest->name,
       fmt::join(schedule_names(), ", "));
}

const Generator& check_request(const ScheduleRequest& request) {
  const Generator& generator = find_generator(request.name);
  MILLRACE_CHECK(request.ranks >= 1, ExitCode::config, who, "pipeline.ranks = {}, wanted 1 or more", request.ranks);
  MILLRACE_CHECK(request.chunks >= 1, ExitCode::config, who, "pipeline.chunks = {}, wanted 1 or more", request.chunks);
  MILLRACE_CHECK(request.microbatches >= 1, ExitCode::config, who, "train.microbatches = {}, wanted 1 or more", request.microbatches);
  MILLRACE_CHECK(generator.several_chunks || request.chunks == 1, ExitCode::config, who,
                 "{} runs one chunk a rank, pipeline.chunks = {} found; take pipeline.chunks = 1, or looped-bfs, which runs several",
                 request.name, request.chunks);
  MILLRACE_CHECK(!request.warmup || request.name == "1f1b", ExitCode::config, who,
                 "{} has no warm-up parameter, {} values found; leave it out, or take 1f1b, which has one", request.name,
                 request.warmup->size());
  return generator;
}

}  // namespace

bool Schedule::forward_only() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& list) {
    return std::all_of(list.begin(), list.end(), [](const Action& action) { return action.kind == ActionKind::forward; });
  });
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Generator& generator : generators) all.emplace_back(generator.name);
    return all;
  }();
  return names;
}

Schedule make_schedule(const ScheduleRequest& request) { return check_request(request).make(request); }

Placement placement_of(const ScheduleRequest& request) {
  return check_request(request).several_chunks ? Placement::loop(request.ranks, request.chunks) : Placement::single(request.ranks);
}

}  // namespace millrace::runtime
