#include "runtime/schedule/cell.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"

namespace millrace::runtime {
namespace {

constexpr std::string_view pair_end = ")OVERLAP_F_B";
constexpr std::string_view woven_end = ")OVERLAP";  // of any two actions

// Further operations in PyTorch's tables. The first four require a microbatch, for the others it is optional.
constexpr std::array<std::string_view, 9> implicit{"SEND_F",  "RECV_F",      "SEND_B", "RECV_B",   "UNSHARD",
                                                   "RESHARD", "REDUCE_GRAD", "OPT",    "CKPT_SNAP"};

std::size_t digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && std::isdigit(static_cast<unsigned char>(text[count])) != 0) ++count;
  return count;
}

bool is_implicit(std::string_view text) {
  const std::size_t stage = digits(text);
  const std::string_view rest = text.substr(stage);
  for (std::size_t i = 0; stage > 0 && i < implicit.size(); ++i) {
    if (!rest.starts_with(implicit[i])) continue;
    const std::string_view microbatch = rest.substr(implicit[i].size());
    if (digits(microbatch) == microbatch.size() && (i >= 4 || !microbatch.empty())) return true;
  }
  return false;
}

bool is_forward_and_backward(const Action& first, const Action& second) {
  return first.kind == ActionKind::forward && makes_gradient(second.kind);
}

std::vector<Action> parse_pair(std::string_view text) {
  const std::size_t middle = text.find(';');
  const std::string_view end = text.ends_with(woven_end) ? woven_end : pair_end;
  MILLRACE_CHECK(text.ends_with(end) && middle != std::string_view::npos, ExitCode::config, schedule_component,
                 "\"{}\": expected an overlapped pair like (0F5;7B0)OVERLAP_F_B", text);
  Action first = parse_action(text.substr(1, middle - 1));
  const Action second = parse_action(text.substr(middle + 1, text.size() - end.size() - middle - 1));
  MILLRACE_CHECK(end == woven_end || is_forward_and_backward(first, second), ExitCode::config, schedule_component,
                 "\"{}\": expected F first and B or I second in an overlapped pair", text);
  MILLRACE_CHECK(first.microbatch != second.microbatch, ExitCode::config, schedule_component,
                 "\"{}\": both halves of an overlapped pair are of microbatch {}, expected different ones", text, first.microbatch);
  first.overlaps_next = true;
  return {first, second};
}

}  // namespace

std::vector<Action> parse_cell(std::string_view text) {
  if (text.empty() || is_implicit(text)) return {};
  if (text.front() == '(') return parse_pair(text);
  return {parse_action(text)};
}

std::vector<std::string> print_cells(const std::vector<Action>& list) {
  std::vector<std::string> cells;
  for (std::size_t index = 0; index < list.size(); ++index) {
    const bool pair = list[index].overlaps_next && index + 1 < list.size();
    const auto& end = pair && is_forward_and_backward(list[index], list[index + 1]) ? pair_end : woven_end;
    cells.push_back(pair ? fmt::format("({};{}{}", list[index], list[index + 1], end) : to_string(list[index]));
    if (pair) ++index;
  }
  return cells;
}

std::string print_row(const std::vector<Action>& list) { return fmt::format("{}", fmt::join(print_cells(list), ",")); }

}  // namespace millrace::runtime
