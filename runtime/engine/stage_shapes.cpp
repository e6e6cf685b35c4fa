#include "runtime/engine/stage_shapes.hpp"

#include <algorithm>
#include <map>

#include "kernels/base/dtype.hpp"

namespace millrace::runtime {
namespace {

double work_of(const ProgramSet& programs, const Operation& operation) {
  if (posted_by(operation).valid() || awaited_by(operation).valid()) return 0;
  const Cost one = cost(programs, operation);
  return one.flops + usual_flops_per_byte * one.bytes;
}

double mean_bytes(const ProgramSet& programs, ValueId id) {
  const ValueType type = mean_type(programs, id);
  return static_cast<double>(type.shape.elements()) * static_cast<double>(kernels::size_of(type.dtype));
}

/// Usually one side has exactly what is exchanged and the other a bound of it. In rounds the other has the rows of the whole microbatch, of
/// which a round sends or receives some.
double bytes_of(const ProgramSet& programs, ExchangeId id, int members) {
  const ExchangeSpec& exchange = programs.exchange(id);
  const double sent = mean_bytes(programs, exchange.send), received = mean_bytes(programs, exchange.receive);
  const bool ranges = exchange.send_table.valid() && has_ranges(programs.value(exchange.send_table).type.shape);
  return (ranges ? std::min(sent, received) : std::max(sent, received)) * static_cast<double>(members - 1) / static_cast<double>(members);
}

/// The exchanges of a program are numbered in the order in which it posts them, whatever their ids are.
void describe(const ProgramSet& programs, ProgramKind program, int members, ActionKind kind, StageShape& stage) {
  auto& shapes = stage.of(kind);
  auto& usual = stage.usual[static_cast<std::size_t>(kind)];
  shapes.clear();
  std::vector<ExchangeId> posted;
  std::map<std::int32_t, int> last_addition;  // by accumulator
  const std::vector<Segment> segments = programs.segments(program);
  const auto for_sums = [&](const Segment& segment, auto&& visit) {
    for (std::size_t index = segment.first; index < segment.end; ++index)
      for (const ValueId output : programs.program(program)[index].outputs)
        if (programs.value(output).role == Role::accumulator) visit(output.index);
  };
  for (std::size_t segment = 0; segment < segments.size(); ++segment)
    for_sums(segments[segment], [&](std::int32_t sum) { last_addition[sum] = static_cast<int>(segment); });
  for (const Segment& segment : segments) {
    SegmentShape& shape = shapes.emplace_back();
    if (segment.awaits.valid()) shape.awaits = static_cast<int>(std::ranges::find(posted, segment.awaits) - posted.begin());
    shape.posts = static_cast<int>(segment.posts.size());
    for_sums(segment, [&](std::int32_t sum) { shape.sums_until = std::max(shape.sums_until, last_addition.at(sum)); });
    posted.insert(posted.end(), segment.posts.begin(), segment.posts.end());
    double& work = usual.compute.emplace_back();
    for (std::size_t index = segment.first; index < segment.end; ++index) work += work_of(programs, programs.program(program)[index]);
    for (const ExchangeId id : segment.posts) usual.exchange.push_back(usual_flops_per_sent_byte * bytes_of(programs, id, members));
  }
}

}  // namespace

StageShape training_shape(const ProgramSet& programs, int members) {
  StageShape stage;
  describe(programs, ProgramKind::forward, members, ActionKind::forward, stage);
  describe(programs, ProgramKind::input_gradient, members, ActionKind::input_gradient, stage);
  describe(programs, ProgramKind::weight_gradient, members, ActionKind::weight_gradient, stage);
  describe(programs, ProgramKind::backward, members, ActionKind::backward, stage);
  return stage;
}

StageShape forward_only_shape(const ProgramSet& programs, int members) {
  StageShape stage;
  describe(programs, ProgramKind::evaluate, members, ActionKind::forward, stage);
  return stage;
}

}  // namespace millrace::runtime
