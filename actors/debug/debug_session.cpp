#include "actors/debug/debug_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "actors/debug/component.hpp"
#include "actors/debug/cut_lines.hpp"
#include "actors/debug/routing_text.hpp"
#include "actors/debug/session_text.hpp"
#include "actors/debug/tensor_slice.hpp"
#include "actors/debug/tensor_text.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::actors {
namespace {

constexpr std::size_t max_kept_steps = 2;

/// Thrown out of an operation to abandon it; the stepper that ran it is discarded.
struct Leave {};

std::int64_t count_of(const std::vector<std::string>& words, std::int64_t default_count, std::int64_t min_count = 1) {
  if (words.size() < 2) return default_count;
  std::int64_t count = 0;
  const auto& word = words[1];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  MILLRACE_CHECK(error == std::errc() && end == word.data() + word.size() && count >= min_count, ExitCode::usage, debugger,
                 "{} {}, expected a number of {} or more", words[0], word, min_count);
  return count;
}

const std::string& name_of(const std::vector<std::string>& words) {
  MILLRACE_CHECK(words.size() >= 2, ExitCode::usage, debugger,
                 "{} what? expected the name of a tensor; `stats` lists weights, `ops` operations", words[0]);
  return words[1];
}

std::string hash_of(const kernels::Tensor& tensor) {
  return runtime::hash_of(std::span<const std::byte>(tensor.data, tensor.bytes())).hex();
}

}  // namespace

DebugSession::DebugSession(const actors::StepperSetup& setup, std::unique_ptr<LineReader> reader)
    : setup_(setup), reader_(std::move(reader)) {
  begin_stepper(setup.state, setup.first_step);
}

DebugSession::~DebugSession() = default;

void DebugSession::begin_stepper(const actors::StateCopy* state, std::int64_t first_step) {
  stepper_.reset();  // frees its memory before the next one allocates as much
  auto setup = setup_;
  setup.state = state;
  setup.first_step = first_step;
  stepper_ = std::make_unique<actors::Stepper>(setup);
  stepper_->set_hook(this);
  standing_ = {};
  printed_steps_ = first_step;
  stand_before_next();
}

void DebugSession::run() {
  kept_.push_back({0, stepper_->beginning()});
  fmt::print("{}\n", standing_text(*stepper_, standing_));
  while (read_commands()) {
    try {
      advance();
    } catch (const Leave&) {
      standing_.inside = false;
      standing_.call = nullptr;
    }
    if (quitting_) break;
    if (back_to_) rebuild(*std::exchange(back_to_, std::nullopt));
  }
  if (script_error_) std::rethrow_exception(script_error_);
}

/// Returns true if the pipeline is to continue, false at the end of the session.
bool DebugSession::read_commands() {
  for (;;) {
    std::fflush(stdout);
    const auto line = reader_->next();
    if (!line) {
      quitting_ = true;
      return false;
    }
    try {
      if (carry_out(*line)) return !quitting_;
    } catch (const Error& error) {
      std::fflush(stdout);
      if (!reader_->interactive()) {
        // Thrown here within an action, it would be taken for a failure of that action.
        script_error_ = std::current_exception();
        quitting_ = true;
        return false;
      }
      fmt::print("{}\n", error.what());
    }
  }
}

void DebugSession::show_lines(const std::string& text) const { fmt::print("{}", cut_lines(text, reader_->width())); }

// -- commands that continue
// -----------------------------------------------------------------------------------------------------------------------------

bool DebugSession::step(const std::vector<std::string>& words) {
  goal_ = {Goal::actions, count_of(words, 1), standing_.rank, {}};
  return true;
}

bool DebugSession::next(const std::vector<std::string>& words) {
  goal_ = {Goal::actions_of_rank, count_of(words, 1), standing_.rank, {}};
  return true;
}

bool DebugSession::operation(const std::vector<std::string>& words) {
  goal_ = {Goal::calls, count_of(words, 1) - 1, standing_.rank, {}};
  return true;
}

bool DebugSession::go(const std::vector<std::string>&) {
  goal_ = {};
  return true;
}

bool DebugSession::until(const std::vector<std::string>& words) {
  MILLRACE_CHECK(words.size() >= 2, ExitCode::usage, debugger, "until what? expected an action (2F3) or step N");
  if (words[1] == "step") {
    const auto step = count_of({words.begin() + 1, words.end()}, 1);
    MILLRACE_CHECK(step <= setup_.train.steps, ExitCode::usage, debugger, "until step {}, the run has {}", step, setup_.train.steps);
    goal_ = {Goal::before_step, step, standing_.rank, {}};
    return true;
  }
  const auto action = runtime::parse_action(words[1]);
  static_cast<void>(rank_of(stepper_->plan(), action));  // throws if no rank has it
  goal_ = {Goal::before_action, 0, standing_.rank, action};
  return true;
}

bool DebugSession::back(const std::vector<std::string>& words) {
  const auto count = static_cast<std::size_t>(count_of(words, 1)) - (standing_.inside ? 1 : 0);
  MILLRACE_CHECK(count <= path_.size(), ExitCode::usage, debugger, "back {}, expected at most {}: the session began there",
                 count_of(words, 1), path_.size() + (standing_.inside ? 1 : 0));
  back_to_ = path_.size() - count;
  return true;
}

bool DebugSession::quit(const std::vector<std::string>&) {
  quitting_ = true;
  return true;
}

void DebugSession::advance() {
  if (back_to_) return;
  for (bool first = true;; first = false) {
    const auto rank = stepper_->next_rank();
    if (rank == runtime::no_rank) {
      if (stepper_->ended()) return stop("");
      show_lines(where_text(*stepper_, standing_));
      return stop("no rank can continue");
    }
    if (!first && stops_before(*stepper_->next(rank), rank)) return;
    const auto finished = stepper_->step();
    run_one(rank);
    if (watched_changes(stepper_->step() != finished)) return;
    const bool counts = goal_.kind == Goal::actions || (goal_.kind == Goal::actions_of_rank && goal_.rank == rank);
    if (counts && --goal_.count <= 0) return stop("");
  }
}

/// Between actions: whether the goal or a break point requires a stop before this action.
bool DebugSession::stops_before(const actors::Execute& execute, runtime::RankId rank) {
  const auto stand = [&](const std::string& why) {
    stand_before_next();
    standing_.rank = rank;
    stop(why);
    return true;
  };
  const bool begins = execute.segment == 0;
  if (goal_.kind == Goal::before_action && begins && execute.action == goal_.action) return stand("");
  if (goal_.kind == Goal::before_step && stepper_->step() + 1 == goal_.count && stepper_->position() == 0) return stand("");
  for (std::size_t index = 0; index < breakpoints_.size(); ++index) {
    const auto& point = breakpoints_[index];
    if (point && begins && point->of_actions() && point->matches(execute.action, stepper_->step()))
      return stand(fmt::format("break point {}: {}", index + 1, point->text()));
  }
  return false;
}

void DebugSession::run_one(runtime::RankId rank) {
  standing_.rank = rank;
  standing_.action = *stepper_->next(rank);
  standing_.inside = true;
  standing_.behind = false;
  try {
    stepper_->run(rank);
  } catch (const Error& error) {
    standing_.inside = false;
    fmt::print("{}\n", error.what());
  }
  standing_.inside = false;
  standing_.behind = true;
  last_.resize(static_cast<std::size_t>(stepper_->plan().ranks()));
  last_[rank.index()] = standing_.action;
  path_.push_back(rank);
  if (stepper_->beginning() != kept_.back().state) {
    kept_.push_back({path_.size(), stepper_->beginning()});
    if (kept_.size() > max_kept_steps) kept_.erase(kept_.begin());
  }
  print_finished_steps();
}

void DebugSession::print_finished_steps() {
  const auto& newest = stepper_->newest();
  if (!newest || newest->step <= printed_steps_) return;
  printed_steps_ = newest->step;
  if (!replaying_)
    fmt::print("step {}/{} | loss {:.6f} ({:a}) | gnorm {:.4f} ({:a}) | lr {:.3e}\n", newest->step, newest->steps, newest->loss,
               newest->loss, newest->gradient_norm, newest->gradient_norm, newest->learning_rate);
}

void DebugSession::stand_before_next() {
  standing_.behind = false;
  const auto rank = stepper_->next_rank();
  if (rank != runtime::no_rank) standing_.rank = rank;
  standing_.action.reset();
  if (standing_.rank.index() < last_.size()) standing_.action = last_[standing_.rank.index()];
}

void DebugSession::stop(const std::string& why) {
  if (!why.empty()) fmt::print("{}\n", why);
  if (standing_.rank.index() < last_.size()) standing_.action = last_[standing_.rank.index()];
  fmt::print("{}\n", standing_text(*stepper_, standing_));
}

bool DebugSession::watched_changes(bool updated) {
  bool changed = false;
  for (auto& watch : watches_) {
    const auto named = finder().find(watch.name);
    if (auto now = hash_of(named.tensor); now != watch.hash) {
      watch.hash = std::move(now);
      fmt::print("{}{} changed it:\n{}", updated ? "the update after " : "", standing_.action->action, describe(named));
      changed = true;
    }
  }
  if (changed) stop("");
  return changed;
}

/// Runs the first `actions` actions of the session again, beginning with the newest step that starts before them.
void DebugSession::rebuild(std::size_t actions) {
  while (kept_.size() > 1 && kept_.back().at > actions) kept_.pop_back();
  const bool kept = kept_.back().at <= actions;
  const std::size_t from = kept ? kept_.back().at : 0;
  const auto state = kept ? kept_.back().state : nullptr;
  const auto path = path_;
  last_.clear();
  begin_stepper(state ? state.get() : setup_.state, state ? state->step : setup_.first_step);
  kept_ = {{from, stepper_->beginning()}};
  path_.resize(from);
  replaying_ = true;
  for (std::size_t at = from; at < actions; ++at) run_one(path[at]);
  replaying_ = false;
  for (auto& watch : watches_) watch.hash = hash_of(finder().find(watch.name).tensor);
  stop("");
}

// -- around operations --------------------------------------------------------------------------------------------------------------------

void DebugSession::before(const Call& call) {
  if (replaying_) return;
  if (goal_.kind == Goal::calls && goal_.count-- == 0) return stop_inside(call, false, "");
  for (std::size_t index = 0; index < breakpoints_.size(); ++index) {
    const auto& point = breakpoints_[index];
    if (point && !point->of_actions() && point->matches(standing_.action->action, stepper_->step()) && point->before(call))
      return stop_inside(call, false, fmt::format("break point {}: {}", index + 1, point->text()));
  }
}

void DebugSession::after(const Call& call) {
  if (replaying_) return;
  for (const auto& point : breakpoints_) {
    if (!point || point->of_actions() || !point->matches(standing_.action->action, stepper_->step())) continue;
    if (const auto why = point->after(call)) return stop_inside(call, true, *why);
  }
}

void DebugSession::stop_inside(const Call& call, bool after, const std::string& why) {
  standing_.call = &call;
  standing_.after = after;
  goal_ = {};
  if (!why.empty()) fmt::print("{}\n", why);
  fmt::print("{}\n", standing_text(*stepper_, standing_));
  const bool go_on = read_commands();
  standing_.call = nullptr;
  if (!go_on || back_to_) throw Leave();
}

// -- commands that show
// ------------------------------------------------------------------------------------------------------------------------------

/// Throws unless the name is that of an operation or value of any stage, or a suffix of one. An empty name is accepted.
void DebugSession::check_name(const std::string& name) const {
  if (name.empty()) return;
  std::vector<std::string> names;
  for (int rank = 0; rank < stepper_->plan().ranks(); ++rank) {
    for (const auto& stage : stepper_->rank(runtime::RankId(rank)).compute().stages()) {
      for (const auto& value : stage->programs().values) names.push_back(value.name);
      for (std::size_t kind = 0; kind < runtime::program_kind_count; ++kind)
        for (const auto& operation : stage->programs().program(static_cast<runtime::ProgramKind>(kind))) names.push_back(operation.name);
    }
  }
  const bool known = std::any_of(names.begin(), names.end(), [&](const auto& full) { return is_name(full, name); });
  MILLRACE_CHECK(known, ExitCode::usage, debugger, "no operation or value {} on any stage{}", name, did_you_mean(name, names));
}

bool DebugSession::break_at(const std::vector<std::string>& words) {
  if (words.size() > 1) {
    const auto point = Breakpoint::parse({words.begin() + 1, words.end()});
    MILLRACE_CHECK(!point.stage || *point.stage < stepper_->plan().stages(), ExitCode::usage, debugger, "stage {}, expected 0 to {}",
                   *point.stage, stepper_->plan().stages() - 1);
    MILLRACE_CHECK(!point.microbatch || *point.microbatch < stepper_->plan().schedule.microbatches, ExitCode::usage, debugger,
                   "microbatch {}, expected 0 to {}", *point.microbatch, stepper_->plan().schedule.microbatches - 1);
    const auto layer = point.condition && point.condition->layer >= 0 ? point.condition->layer : point.layer.value_or(0);
    MILLRACE_CHECK(layer < stepper_->plan().model.layers, ExitCode::usage, debugger, "layer {}, expected 0 to {}", layer,
                   stepper_->plan().model.layers - 1);
    check_name(point.operation);
    if (point.condition) check_name(point.condition->subject);
    breakpoints_.emplace_back(point);
    fmt::print("break point {}: {}\n", breakpoints_.size(), point.text());
    return false;
  }
  bool any = false;
  for (std::size_t index = 0; index < breakpoints_.size(); ++index) {
    if (!breakpoints_[index]) continue;
    fmt::print("break point {}: {}\n", index + 1, breakpoints_[index]->text());
    any = true;
  }
  if (!any) fmt::print("no break points; `help break` describes them\n");
  return false;
}

bool DebugSession::remove(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[1] == "all") {
    breakpoints_.clear();
    watches_.clear();
    return false;
  }
  MILLRACE_CHECK(words.size() == 2, ExitCode::usage, debugger, "delete what? expected a break point's number, or all");
  const auto number = static_cast<std::size_t>(count_of(words, 0));
  MILLRACE_CHECK(number <= breakpoints_.size() && breakpoints_[number - 1], ExitCode::usage, debugger, "no break point {}", number);
  breakpoints_[number - 1].reset();
  return false;
}

bool DebugSession::turn_to(const std::vector<std::string>& words) {
  MILLRACE_CHECK(!standing_.inside, ExitCode::usage, debugger, "rank {} is within {}, expected a stop between actions: `step` ends it",
                 standing_.rank, standing_.action->action);
  MILLRACE_CHECK(words.size() == 2, ExitCode::usage, debugger, "rank which? expected 0 to {}", stepper_->plan().ranks() - 1);
  const auto rank = count_of(words, 0, 0);
  MILLRACE_CHECK(rank < stepper_->plan().ranks(), ExitCode::usage, debugger, "rank {}, expected 0 to {}", rank,
                 stepper_->plan().ranks() - 1);
  standing_.rank = runtime::RankId(static_cast<int>(rank));
  standing_.behind = false;
  stop("");
  return false;
}

bool DebugSession::where(const std::vector<std::string>&) {
  show_lines(where_text(*stepper_, standing_));
  return false;
}

bool DebugSession::queue(const std::vector<std::string>&) {
  show_lines(queue_text(*stepper_));
  return false;
}

bool DebugSession::operations(const std::vector<std::string>& words) {
  show_lines(words.size() > 1 ? operations_text(*stepper_, words[1]) : operations_text(*stepper_, standing_));
  return false;
}

bool DebugSession::print(const std::vector<std::string>& words) {
  name_of(words);
  const std::string text = fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " "));
  const auto sliced = split_slice(text);
  // The name of a part of a divided tensor ends in brackets too.
  if (!sliced.given || finder().has(text)) {
    show_lines(describe(finder().find(text)));
  } else {
    show_lines(describe(finder().find(sliced.name), sliced.slice, reader_->width()));
  }
  return false;
}

bool DebugSession::statistics(const std::vector<std::string>& words) {
  const std::string part = words.size() > 1 ? words[1] : "";
  show_lines(statistics_head());
  for (const auto& named : finder().weights())
    if (named.name.find(part) != std::string::npos) show_lines(statistics_line(named));
  return false;
}

bool DebugSession::histogram(const std::vector<std::string>& words) {
  show_lines(actors::histogram(finder().find(name_of(words))));
  return false;
}

bool DebugSession::dump(const std::vector<std::string>& words) {
  const auto named = finder().find(name_of(words));
  MILLRACE_CHECK(words.size() == 3, ExitCode::usage, debugger, "dump {} where? expected a file's name", words[1]);
  actors::dump(named, words[2]);
  fmt::print("wrote {} to {}\n", named.name, words[2]);
  return false;
}

bool DebugSession::difference(const std::vector<std::string>& words) {
  const auto named = finder().find(name_of(words));
  MILLRACE_CHECK(words.size() == 3, ExitCode::usage, debugger, "diff {} with what? expected a file's name", words[1]);
  fmt::print("{}", actors::difference(named, words[2]));
  return false;
}

bool DebugSession::watch(const std::vector<std::string>& words) {
  if (words.size() < 2) {
    for (const auto& watch : watches_) fmt::print("{}\n", watch.name);
    if (watches_.empty()) fmt::print("no watches; watch a weight, a gradient sum or a state of the optimizer by its name\n");
    return false;
  }
  const auto named = finder().find(words[1]);
  MILLRACE_CHECK(named.where.find(" on rank ") != std::string::npos && !named.where.starts_with("of "), ExitCode::usage, debugger,
                 "{} {}, expected a weight, a gradient sum or a state of the optimizer", named.name, named.where);
  watches_.push_back({named.name, hash_of(named.tensor)});
  fmt::print("watching {}, {}\n", named.name, named.where);
  return false;
}

bool DebugSession::set(const std::vector<std::string>& words) {
  name_of(words);
  MILLRACE_CHECK(words.size() >= 3, ExitCode::usage, debugger, "set {}, expected an element and a value: set {}[0, 3] 1.5", words[1],
                 words[1]);
  const std::string text = fmt::format("{}", fmt::join(words.begin() + 1, words.end() - 1, " "));
  const auto sliced = split_slice(text);
  const bool by_place = sliced.given && !finder().has(text);
  MILLRACE_CHECK(by_place || words.size() == 4, ExitCode::usage, debugger, "set {} …, expected an element and a value: set {}[0, 3] 1.5",
                 words[1], words[1]);
  const auto named = finder().find(by_place ? sliced.name : words[1]);
  const auto& tensor = named.tensor;
  char* end = nullptr;
  std::int64_t element = 0;
  if (by_place) {
    element = element_of(parse_slice(sliced.slice, named.name, tensor.shape), text, tensor.shape);
  } else {
    element = std::strtoll(words[2].c_str(), &end, 10);
    MILLRACE_CHECK(*end == 0 && element >= 0 && element < tensor.elements(), ExitCode::usage, debugger, "element {}, expected 0 to {}",
                   words[2], tensor.elements() - 1);
  }
  const double value = std::strtod(words.back().c_str(), &end);
  MILLRACE_CHECK(*end == 0, ExitCode::usage, debugger, "value \"{}\", expected a number, nan or inf", words.back());
  MILLRACE_CHECK(tensor.dtype == kernels::DType::f32 || tensor.dtype == kernels::DType::bf16, ExitCode::usage, debugger,
                 "{} is {}, expected fp32 or bf16", named.name, kernels::to_string(tensor.dtype));
  if (tensor.dtype == kernels::DType::f32) {
    tensor.as<float>()[element] = static_cast<float>(value);
  } else {
    tensor.as<kernels::BFloat16>()[element] = kernels::to_bfloat16(static_cast<float>(value));
  }
  if (named.where.starts_with("weight")) stepper_->refresh_copies();
  show_lines(describe(named));
  return false;
}

bool DebugSession::show(const std::vector<std::string>& words) {
  MILLRACE_CHECK(words.size() >= 2 && words[1] == "routing", ExitCode::usage, debugger, "{}, expected show routing",
                 words.size() < 2 ? "show what?" : "show " + words[1]);
  show_lines(routing_text(*stepper_, standing_, count_of({words.begin() + 1, words.end()}, 0, 0)));
  return false;
}

}  // namespace millrace::actors
