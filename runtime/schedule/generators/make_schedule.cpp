// Finds the generator of a schedule by name.

#include <algorithm>
#include <array>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/schedule/schedule.hpp"
#include "runtime/schedule/schedule_config.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* component = "runtime.schedule";

enum class Chunks { one, two, any };

struct Generator {
  const char* name;
  Chunks chunks;
  Schedule (*make)(const ScheduleRequest&);
};

using Request = ScheduleRequest;

constexpr std::array generators{
    Generator{"gpipe", Chunks::one, [](const Request& run) { return gpipe(run.ranks, run.microbatches); }},
    Generator{"1f1b", Chunks::one, [](const Request& run) { return one_f_one_b(run.ranks, run.microbatches, run.warmup); }},
    Generator{"looped-bfs", Chunks::any, [](const Request& run) { return looped_bfs(run.ranks, run.chunks, run.microbatches); }},
    Generator{"interleaved", Chunks::any,
              [](const Request& run) { return interleaved(run.ranks, run.chunks, run.microbatches, run.group); }},
    Generator{"circular", Chunks::any, [](const Request& run) { return circular(run.ranks, run.chunks, run.microbatches); }},
    Generator{"zb-h1", Chunks::one, [](const Request& run) { return zb_h1(run.ranks, run.microbatches); }},
    Generator{"zb-h2", Chunks::one, [](const Request& run) { return zb_h2(run.ranks, run.microbatches); }},
    Generator{"zb-v", Chunks::two, [](const Request& run) { return zb_v(run.ranks, run.microbatches); }},
    Generator{"interleaved-zb", Chunks::any,
              [](const Request& run) { return interleaved_zb(run.ranks, run.chunks, run.microbatches, run.group); }},
    Generator{"v-half", Chunks::two, [](const Request& run) { return v_half(run.ranks, run.microbatches); }},
    Generator{"v-min", Chunks::two, [](const Request& run) { return v_min(run.ranks, run.microbatches); }},
    Generator{"dualpipe", Chunks::one, [](const Request& run) { return dualpipe(run.ranks, run.microbatches); }},
    Generator{"dualpipe-v", Chunks::two, [](const Request& run) { return dualpipe_v(run.ranks, run.microbatches); }},
    Generator{"auto", Chunks::one, [](const Request& run) { return auto_search(run.ranks, run.microbatches, run.search); }},
};

constexpr bool names_as_in_the_configuration() {
  if (generators.size() != schedule_choices.size()) return false;
  for (std::size_t i = 0; i < generators.size(); ++i)
    if (std::string_view(generators[i].name) != schedule_choices[i]) return false;
  return true;
}
static_assert(names_as_in_the_configuration());

const Generator& find_generator(std::string_view name) {
  const Generator* nearest = &generators.front();
  for (const Generator& generator : generators) {
    if (generator.name == name) return generator;
    if (edit_distance(name, generator.name) < edit_distance(name, nearest->name)) nearest = &generator;
  }
  fail(ExitCode::config, component, "pipeline.schedule = \"{}\" is unknown, did you mean \"{}\"? (known: {})", name, nearest->name,
       fmt::join(schedule_names(), ", "));
}

// Rejects what no schedule can do, and settings that this one does not use.
void check_request(const Request& request, const Generator& generator) {
  MILLRACE_CHECK(request.ranks >= 1, ExitCode::config, component, "pipeline.ranks = {}, expected 1 or more", request.ranks);
  MILLRACE_CHECK(request.chunks >= 1, ExitCode::config, component, "pipeline.chunks = {}, expected 1 or more", request.chunks);
  MILLRACE_CHECK(request.microbatches >= 1, ExitCode::config, component, "train.microbatches = {}, expected 1 or more",
                 request.microbatches);
  MILLRACE_CHECK(generator.chunks != Chunks::one || request.chunks == 1, ExitCode::config, component,
                 "{} has one chunk per rank, but pipeline.chunks = {}; use pipeline.chunks = 1, or looped-bfs, which takes several",
                 request.name, request.chunks);
  MILLRACE_CHECK(generator.chunks != Chunks::two || request.chunks == 2, ExitCode::config, component,
                 "{} has two chunks per rank, but pipeline.chunks = {}; use pipeline.chunks = 2", request.name, request.chunks);
  MILLRACE_CHECK(!request.warmup || request.name == "1f1b", ExitCode::config, component,
                 "{} has no warm-up parameter; omit it, or use 1f1b, which has one", request.name);
  MILLRACE_CHECK(request.group >= 0, ExitCode::config, component, "pipeline.group = {}, expected 0 or more", request.group);
  const bool grouped = request.name == "interleaved" || request.name == "interleaved-zb";
  MILLRACE_CHECK(request.group == 0 || grouped, ExitCode::config, component,
                 "{} has no groups, but pipeline.group = {}; use pipeline.group = 0, or interleaved, which has groups", request.name,
                 request.group);
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names(schedule_choices.begin(), schedule_choices.end());
  return names;
}

int usual_chunks(std::string_view name) { return find_generator(name).chunks == Chunks::one ? 1 : 2; }

Schedule make_schedule(const ScheduleRequest& request) {
  const Generator& generator = find_generator(request.name);
  check_request(request, generator);
  return generator.make(request);
}

Placement placement_of(const ScheduleRequest& request) { return make_schedule(request).placement; }

}  // namespace millrace::runtime
