#include "runtime/program/print.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace millrace::runtime {
namespace {

using Row = std::vector<std::string>;

/// A number with three digits and a decimal prefix, such as "1.50 G".
std::string short_number(double number) {
  constexpr std::array<std::string_view, 6> prefixes = {"", " k", " M", " G", " T", " P"};
  std::size_t prefix = 0;
  while (number >= 1000 && prefix + 1 < prefixes.size()) {
    number /= 1000;
    ++prefix;
  }
  if (prefix == 0) return fmt::format("{:.0f}", number);
  return fmt::format("{:.{}f}{}", number, number < 10 ? 2 : number < 100 ? 1 : 0, prefixes[prefix]);
}

std::string labels_of(const Value& value) { return fmt::format("{}", fmt::join(value.labels, ",")); }

std::string place_of(const Place& placement) { return fmt::format("{}+{}", to_string(placement.region), placement.offset); }

/// Adds the operation's row with its first result, and a row for each further result. An operation that only copies into a value
/// completed by a later operation has no row.
void add_rows(std::vector<Row>& rows, const ProgramSet& programs, const MemoryPlan& plan, std::size_t position,
              const Operation& operation) {
  const auto one = cost(programs, operation);
  Row head = {std::to_string(position),    operation.name,          kind_of(operation),
              operation.attributes.text(), short_number(one.flops), short_number(one.bytes)};
  for (const auto id : operation.outputs) {
    const auto& value = programs.value(id);
    head.push_back(fmt::format("{} {}", kernels::to_string(value.type.dtype), kernels::to_string(value.type.shape)));
    head.push_back(place_of(plan.placements.at(static_cast<std::size_t>(id.index))));
    head.push_back(labels_of(value));
    rows.push_back(std::move(head));
    head = Row(6);
  }
  if (operation.outputs.empty()) {
    head.resize(9);
    rows.push_back(std::move(head));
  }
}

/// One line per port, for boundaries that are more than the residual stream: name, type, and where its activation and its gradient lie.
std::string ports_text(const ProgramSet& programs, const MemoryPlan& plan, std::string_view direction, const std::vector<Port>& ports) {
  if (ports.size() == 1 && ports[0].name == hidden_port) return "";
  std::string text;
  for (const Port& port : ports) {
    const auto place = [&](ValueId id) { return place_of(plan.placements.at(static_cast<std::size_t>(id.index))); };
    const auto& type = programs.value(port.value).type;
    text +=
        fmt::format("port {:<4} {:<12} {} {}  {}{}\n", direction, port.name, kernels::to_string(type.dtype), kernels::to_string(type.shape),
                    place(port.value), port.gradient.valid() && plan.mode != BackwardMode::forward_only ? ", " + place(port.gradient) : "");
  }
  return text;
}

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t column = 0; column < row.size(); ++column) widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const bool number = column == 0 || column == 4 || column == 5;
      line += number ? fmt::format("{:>{}}  ", row[column], widths[column]) : fmt::format("{:<{}}  ", row[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string print(const ProgramSet& programs, ProgramKind kind, const MemoryPlan& plan) {
  const auto& program = programs.program(kind);
  std::vector<Row> rows = {{"#", "operation", "kind", "attributes", "flop", "bytes", "result", "place", "labels"}};
  for (std::size_t i = 0; i < program.size(); ++i) add_rows(rows, programs, plan, i, program[i]);
  const auto sum = programs.cost(kind);
  const auto recomputed = std::count_if(program.begin(), program.end(), [](const Operation& operation) { return operation.recomputed; });
  std::string text = fmt::format("{}: {} operations, {} of them recomputed\n", to_string(kind), program.size(), recomputed);
  text += table(rows);
  text += fmt::format("total {}flop, {}B moved; workspace {} B, of it scratch {} B\n", short_number(sum.flops) + " ",
                      short_number(sum.bytes) + " ", plan.workspace_bytes[static_cast<std::size_t>(kind)],
                      plan.scratch_bytes[static_cast<std::size_t>(kind)]);
  text += ports_text(programs, plan, "in", programs.inputs) + ports_text(programs, plan, "out", programs.outputs);
  for (const auto region : {Region::stash_input, Region::stash_weight, Region::handoff, Region::boundary_in, Region::boundary_out,
                            Region::gradient_in, Region::gradient_out, Region::batch, Region::workspace, Region::offload})
    text += fmt::format("{:<12} {:>12} B per slot\n", to_string(region), plan.region_bytes[static_cast<std::size_t>(region)]);
  if (const auto bytes = plan.region_bytes[static_cast<std::size_t>(Region::result)]; bytes > 0)
    text += fmt::format("{:<12} {:>12} B per slot\n", to_string(Region::result), bytes);
  return text;
}

}  // namespace millrace::runtime
