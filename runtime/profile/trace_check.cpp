#include "runtime/profile/trace_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace millrace::runtime {
namespace {

using Json = nlohmann::json;
using LaneId = std::pair<std::int64_t, std::int64_t>;  // pid, tid

constexpr std::size_t max_problems = 20;

struct Slice {
  std::int64_t begin = 0, end = 0;  // integer nanoseconds, since microseconds as doubles compare inexactly
  std::string name;
};
struct FlowEnd {
  LaneId lane;
  std::int64_t time = 0;
};
struct Flow {
  std::vector<FlowEnd> begins, ends;
};

class Checker {
 public:
  std::vector<std::string> check(const std::string& text) {
    const Json file = Json::parse(text, nullptr, false);
    if (file.is_discarded()) return {"not JSON"};
    if (!file.is_object() || !file.contains("traceEvents") || !file.at("traceEvents").is_array())
      return {"not an object with a list traceEvents"};
    read_clocks(file);
    std::size_t number = 0;
    for (const Json& event : file.at("traceEvents")) read(event, number++);
    check_lanes();
    check_names();
    check_flows();
    check_asynchronous();
    return std::move(problems_);
  }

 private:
  void problem(std::string text) {
    if (problems_.size() < max_problems) problems_.push_back(std::move(text));
  }

  void read_clocks(const Json& file) {
    if (!file.contains("otherData") || !file.at("otherData").contains("ranks")) return;
    for (const Json& rank : file.at("otherData").at("ranks"))
      bounds_[rank.value("pid", std::int64_t{-1})] = std::llround(rank.value("clock_bound_us", 0.0) * 1000);
  }

  /// Converts a field from microseconds to nanoseconds; reports a problem if it is not a finite number.
  bool time(const Json& event, const char* field, std::size_t number, std::int64_t& nanoseconds) {
    if (!event.contains(field) || !event.at(field).is_number() || !std::isfinite(event.at(field).get<double>())) {
      problem(fmt::format("event {}: {} is not a number", number, field));
      return false;
    }
    nanoseconds = std::llround(event.at(field).get<double>() * 1000);
    return true;
  }

  void read(const Json& event, std::size_t number) {
    if (!event.is_object() || !event.contains("ph") || !event.at("ph").is_string())
      return problem(fmt::format("event {}: no phase", number));
    const auto phase = event.at("ph").get<std::string>();
    static constexpr std::string_view known = "XMCsfbe";
    if (phase.size() != 1 || known.find(phase) == std::string_view::npos)
      return problem(fmt::format("event {}: phase {}, expected one of X M C s f b e", number, phase));
    for (const char* field : {"pid", "tid"})
      if (!event.contains(field) || !event.at(field).is_number_integer()) return problem(fmt::format("event {}: no {}", number, field));
    const LaneId lane{event.at("pid").get<std::int64_t>(), event.at("tid").get<std::int64_t>()};
    const auto name = event.value("name", std::string());
    if (phase == "M") return read_name(lane, name);
    std::int64_t at = 0;
    if (!time(event, "ts", number, at)) return;
    if (phase == "X") return read_slice(event, number, lane, name, at);
    if (phase == "C") return read_counter(event, number, lane, name);
    if (phase == "b" || phase == "e") return read_asynchronous(event, number, phase, name, at);
    read_flow(event, number, phase, lane, at);
  }

  void read_name(LaneId lane, const std::string& what) {
    if (what == "process_name") named_processes_.insert(lane.first);
    if (what == "thread_name") named_lanes_.insert(lane);
  }

  void read_slice(const Json& event, std::size_t number, LaneId lane, const std::string& name, std::int64_t begin) {
    std::int64_t duration = 0;
    if (!time(event, "dur", number, duration)) return;
    if (duration < 0) return problem(fmt::format("event {}: {} lasts {} ns", number, name, duration));
    lanes_[lane].push_back({begin, begin + duration, name});
  }

  void read_counter(const Json& event, std::size_t number, LaneId lane, const std::string& name) {
    counted_.insert(lane.first);
    const bool numbers = event.contains("args") && event.at("args").is_object() && !event.at("args").empty() &&
                         std::all_of(event.at("args").begin(), event.at("args").end(), [](const Json& value) { return value.is_number(); });
    if (!numbers) problem(fmt::format("event {}: counter {} without numbers", number, name));
  }

  /// The end of an asynchronous slice follows its begin in the file.
  void read_asynchronous(const Json& event, std::size_t number, const std::string& phase, const std::string& name, std::int64_t at) {
    if (!event.contains("id")) return problem(fmt::format("event {}: {} without id", number, name));
    const std::string id = event.value("cat", std::string()) + event.at("id").dump();
    if (phase == "b") {
      if (!begun_.emplace(id, Slice{at, at, name}).second) problem(fmt::format("event {}: {} begins twice", number, name));
      return;
    }
    const auto begun = begun_.extract(id);
    if (begun.empty()) return problem(fmt::format("event {}: {} ends and has not begun", number, name));
    const Slice& slice = begun.mapped();
    if (slice.name != name) problem(fmt::format("event {}: {} ends as {}", number, slice.name, name));
    if (at < slice.begin) problem(fmt::format("event {}: {} lasts {} ns", number, name, at - slice.begin));
  }

  void read_flow(const Json& event, std::size_t number, const std::string& phase, LaneId lane, std::int64_t at) {
    if (!event.contains("id")) return problem(fmt::format("event {}: a flow without id", number));
    if (phase == "f" && event.value("bp", std::string()) != "e")
      return problem(fmt::format("event {}: the end of a flow without bp \"e\"", number));
    Flow& flow = flows_[event.at("id").dump()];
    (phase == "s" ? flow.begins : flow.ends).push_back({lane, at});
  }

  void check_lanes() {
    for (auto& [lane, slices] : lanes_) {
      std::stable_sort(slices.begin(), slices.end(),
                       [](const Slice& a, const Slice& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
      std::vector<const Slice*> around;
      for (const Slice& slice : slices) {
        while (!around.empty() && around.back()->end <= slice.begin) around.pop_back();
        if (!around.empty() && slice.end > around.back()->end)
          problem(fmt::format("pid {} tid {}: {} ({} to {} ns) overlaps {} ({} to {} ns)", lane.first, lane.second, slice.name, slice.begin,
                              slice.end, around.back()->name, around.back()->begin, around.back()->end));
        around.push_back(&slice);
      }
    }
  }

  void check_asynchronous() {
    for (const auto& [id, slice] : begun_) problem(fmt::format("{} begins at {} ns and does not end", slice.name, slice.begin));
  }

  void check_names() {
    for (const auto& [lane, slices] : lanes_) {
      if (!named_processes_.contains(lane.first)) problem(fmt::format("pid {} has no process_name", lane.first));
      if (!named_lanes_.contains(lane)) problem(fmt::format("pid {} tid {} has no thread_name", lane.first, lane.second));
    }
    for (const std::int64_t pid : counted_)
      if (!named_processes_.contains(pid)) problem(fmt::format("pid {} has no process_name", pid));
  }

  [[nodiscard]] bool on_slice(const FlowEnd& end) const {
    const auto lane = lanes_.find(end.lane);
    if (lane == lanes_.end()) return false;
    // Sorted by begin: only slices that begin at or before the time can contain it, and lanes nest only a few levels deep.
    const auto after = std::upper_bound(lane->second.begin(), lane->second.end(), end.time,
                                        [](std::int64_t time, const Slice& slice) { return time < slice.begin; });
    for (auto at = after; at != lane->second.begin();) {
      --at;
      if (end.time <= at->end) return true;
      if (after - at > 64) break;
    }
    return false;
  }

  void check_flows() {
    for (const auto& [id, flow] : flows_) {
      if (flow.begins.size() != 1 || flow.ends.size() != 1) {
        problem(fmt::format("flow {} has {} begins and {} ends, expected one of each", id, flow.begins.size(), flow.ends.size()));
        continue;
      }
      const FlowEnd &begin = flow.begins.front(), &end = flow.ends.front();
      for (const FlowEnd* at : {&begin, &end})
        if (!on_slice(*at))
          problem(fmt::format("flow {}: no slice at {} ns on pid {} tid {}", id, at->time, at->lane.first, at->lane.second));
      const std::int64_t bound = bound_of(begin.lane.first) + bound_of(end.lane.first);
      if (end.time < begin.time - bound)
        problem(fmt::format("flow {}: received on pid {} at {} ns, {} ns before it was sent on pid {}; the clocks are within {} ns", id,
                            end.lane.first, end.time, begin.time - end.time, begin.lane.first, bound));
    }
  }

  [[nodiscard]] std::int64_t bound_of(std::int64_t pid) const {
    const auto found = bounds_.find(pid);
    return found == bounds_.end() ? 0 : found->second;
  }

  std::map<LaneId, std::vector<Slice>> lanes_;
  std::map<std::string, Flow> flows_;
  std::map<std::string, Slice> begun_;           // asynchronous slices whose end was not read yet
  std::map<std::int64_t, std::int64_t> bounds_;  // in ns, by pid
  std::set<std::int64_t> named_processes_, counted_;
  std::set<LaneId> named_lanes_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> trace_problems(const std::string& text) { return Checker().check(text); }

}  // namespace millrace::runtime
