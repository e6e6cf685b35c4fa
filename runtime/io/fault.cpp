#include "runtime/io/fault.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* fault_component = "runtime.fault";

constexpr std::array<std::string_view, 15> operation_names = {"open",           "create", "read",   "write",          "sync",
                                                              "truncate",       "rename", "unlink", "make_directory", "remove_directory",
                                                              "sync_directory", "list",   "space",  "lock",           "drop_cache"};

struct Hooks {
  std::mutex mutex;
  FileHook file;
  PointHook point;
  std::uint64_t calls = 0;
  std::atomic<bool> file_set = false;
  std::atomic<bool> point_set = false;
  std::function<bool(std::string_view)> value;
  std::atomic<bool> value_set = false;
};

Hooks& hooks() {
  // Never destroyed, since file calls may come from threads that outlive main().
  static Hooks* instance = new Hooks;
  return *instance;
}

struct Rule {
  bool is_io = false;
  std::string point;
  std::string value;
  std::string path;
  std::optional<FileOperation> operation;
  std::uint64_t at = 1;
  bool from_there_on = false;
  bool counted = false;  // whether call, hit or from was given
  std::string action;
  std::chrono::milliseconds delay{0};
  std::uint64_t seen = 0;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::uint64_t parse_number(std::string_view word, std::string_view text) {
  std::uint64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  MILLRACE_CHECK(result.ec == std::errc{} && result.ptr == text.data() + text.size(), ExitCode::usage, fault_component,
                 "'{}' does not end in a number", word);
  return number;
}

FileOperation parse_operation(std::string_view word, std::string_view name) {
  for (std::size_t index = 0; index < operation_names.size(); ++index)
    if (operation_names[index] == name) return static_cast<FileOperation>(index);
  fail(ExitCode::usage, fault_component, "'{}' is not a file operation", word);
}

/// Returns false if the rule is for another process.
bool parse_word(Rule& rule, std::string_view word, int process) {
  const auto equals = word.find('=');
  const auto key = word.substr(0, equals);
  const auto value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
  if (word == "io") {
    rule.is_io = true;
  } else if (key == "rank" && !value.empty()) {
    return parse_number(word, value) == static_cast<std::uint64_t>(process);
  } else if (key == "call" || key == "hit" || key == "from") {
    rule.at = parse_number(word, value);
    rule.counted = true;
    rule.from_there_on = key == "from";
  } else if (key == "delay" && !value.empty() && rule.action.empty()) {
    rule.action = key;
    rule.delay = std::chrono::milliseconds(parse_number(word, value));
  } else if (key == "path") {
    rule.path = value;
  } else if (key == "op") {
    rule.operation = parse_operation(word, value);
  } else if (key == "point") {
    rule.point = value;
  } else if (key == "value") {
    rule.value = value;
  } else if (equals == std::string_view::npos && word != "delay" && rule.action.empty()) {
    rule.action = word;
  } else {
    fail(ExitCode::usage, fault_component, "'{}' is not part of a rule", word);
  }
  return true;
}

void check_rule(const Rule& rule, std::string_view text) {
  MILLRACE_CHECK((rule.is_io ? 1 : 0) + (rule.point.empty() ? 0 : 1) + (rule.value.empty() ? 0 : 1) == 1, ExitCode::usage, fault_component,
                 "'{}', expected one of io, point=NAME and value=NAME", text);
  const std::array<std::string_view, 6> io_actions = {"eio", "enospc", "short", "kill", "none_written", "enotsup"};
  const std::array<std::string_view, 4> point_actions = {"kill", "stop", "throw", "delay"};
  bool known = false;
  for (auto action : io_actions) known = known || (rule.is_io && rule.action == action);
  for (auto action : point_actions) known = known || (!rule.point.empty() && rule.action == action);
  known = known || (!rule.value.empty() && rule.action == "nan");
  MILLRACE_CHECK(known, ExitCode::usage, fault_component, "'{}' has the action '{}', expected {}", text, rule.action,
                 rule.is_io           ? "eio, enospc, short, kill, none_written or enotsup"
                 : rule.value.empty() ? "kill, stop, throw or delay=MS"
                                      : "nan");
}

std::vector<Rule> parse_rules(std::string_view text, int process) {
  std::vector<Rule> rules;
  for (const auto rule_text : split(text, ';')) {
    if (rule_text.empty()) continue;
    Rule rule;
    bool ours = true;
    for (const auto word : split(rule_text, ':')) ours = parse_word(rule, word, process) && ours;
    check_rule(rule, rule_text);
    if (rule.action == "delay" && !rule.counted) rule.from_there_on = true;  // a slow stage is slow every time
    if (ours) rules.push_back(std::move(rule));
  }
  return rules;
}

bool strikes(Rule& rule) {
  ++rule.seen;
  return rule.from_there_on ? rule.seen >= rule.at : rule.seen == rule.at;
}

FileFault to_fault(std::string_view action) {
  if (action == "eio") return FileFault::io_error;
  if (action == "enospc") return FileFault::no_space;
  if (action == "none_written") return FileFault::no_progress;
  if (action == "enotsup") return FileFault::unsupported;
  return action == "short" ? FileFault::short_write : FileFault::kill;
}

FileFault apply_file_rules(std::vector<Rule>& rules, const FileCall& call) {
  auto fault = FileFault::none;
  for (auto& rule : rules) {
    if (!rule.is_io || (rule.operation && *rule.operation != call.operation) || call.path.find(rule.path) == std::string_view::npos)
      continue;
    if (strikes(rule) && fault == FileFault::none) fault = to_fault(rule.action);
  }
  return fault;
}

/// Rules for points and values. Several threads reach them: they are counted one at a time and carried out concurrently.
class PointRules {
 public:
  explicit PointRules(std::vector<Rule> rules) : rules_(std::move(rules)) {}

  void apply(std::string_view name) {
    for (auto& rule : rules_) {
      if (rule.point.empty() || rule.point != name || !counts(rule)) continue;
      if (rule.action == "kill") _exit(killed_status);
      if (rule.action == "stop") raise(SIGSTOP);
      if (rule.action == "throw") fail(ExitCode::internal, fault_component, "fault point {} throws as requested", name);
      std::this_thread::sleep_for(rule.delay);
    }
  }

  bool strikes_value(std::string_view name) {
    bool struck = false;
    for (auto& rule : rules_) struck |= !rule.value.empty() && rule.value == name && counts(rule);
    return struck;
  }

 private:
  bool counts(Rule& rule) {
    const std::lock_guard lock(mutex_);
    return strikes(rule);
  }
  std::mutex mutex_;
  std::vector<Rule> rules_;
};

}  // namespace

std::string_view to_string(FileOperation operation) noexcept { return operation_names[static_cast<std::size_t>(operation)]; }

void set_file_hook(FileHook hook) {
  const std::lock_guard lock(hooks().mutex);
  hooks().file = std::move(hook);
  hooks().calls = 0;
  hooks().file_set = static_cast<bool>(hooks().file);
}

std::uint64_t file_calls() noexcept {
  const std::lock_guard lock(hooks().mutex);
  return hooks().calls;
}

void set_point_hook(PointHook hook) {
  const std::lock_guard lock(hooks().mutex);
  hooks().point = std::move(hook);
  hooks().point_set = static_cast<bool>(hooks().point);
}

void fault_point(const char* name) {
  if (!hooks().point_set.load(std::memory_order_relaxed)) [[likely]]
    return;
  PointHook hook;
  {
    const std::lock_guard lock(hooks().mutex);
    hook = hooks().point;
  }
  if (hook) hook(name);  // outside the lock, so that one thread's delay does not delay another
}

bool value_faults() noexcept { return hooks().value_set.load(std::memory_order_relaxed); }

bool value_fault(std::string_view name) {
  if (!value_faults()) return false;
  std::function<bool(std::string_view)> ask;
  {
    const std::lock_guard lock(hooks().mutex);
    ask = hooks().value;
  }
  return ask && ask(name);
}

FileFault detail::ask_file_hook(FileOperation operation, std::string_view path, std::uint64_t bytes, std::string_view target) {
  if (!hooks().file_set.load(std::memory_order_relaxed)) [[likely]]
    return FileFault::none;
  const std::lock_guard lock(hooks().mutex);
  if (!hooks().file) return FileFault::none;
  return hooks().file({++hooks().calls, operation, path, bytes, target});
}

void set_faults(std::string_view text, int process) {
  const auto rules = std::make_shared<std::vector<Rule>>(parse_rules(text, process));
  bool any_io = false;
  bool any_point = false;
  bool any_value = false;
  for (const auto& rule : *rules) (rule.is_io ? any_io : rule.value.empty() ? any_point : any_value) = true;
  set_file_hook(any_io ? FileHook([rules](const FileCall& call) { return apply_file_rules(*rules, call); }) : FileHook{});
  const auto points = any_point || any_value ? std::make_shared<PointRules>(*rules) : nullptr;
  set_point_hook(any_point ? PointHook([points](std::string_view name) { points->apply(name); }) : PointHook{});
  const std::lock_guard lock(hooks().mutex);
  hooks().value = nullptr;
  if (any_value) hooks().value = [points](std::string_view name) { return points->strikes_value(name); };
  hooks().value_set = any_value;
}

void set_faults_from_environment() {
  const char* text = std::getenv("MILLRACE_FAULT");
  if (text == nullptr || *text == '\0') return;
  const char* process = std::getenv("OMPI_COMM_WORLD_RANK");
  try {
    set_faults(text, process == nullptr ? 0 : std::atoi(process));
  } catch (const Error& error) {
    fail(error.code(), fault_component, "MILLRACE_FAULT: {}", without_component(error.what()));
  }
}

}  // namespace millrace::runtime
