#include "runtime/engine/exchange_costs.hpp"

#include <algorithm>

#include "kernels/base/dtype.hpp"
#include "runtime/engine/stage_shapes.hpp"

namespace millrace::runtime {
namespace {

/// What a usual processor computes while it reads or writes a byte. It only divides an action between its segments.
constexpr double flops_per_byte = 8;

/// … and while it sends a byte to another host: 100 GFLOP/s beside 12 Gbit/s.
constexpr double flops_per_sent_byte = 64;

double work_of(const ProgramSet& programs, const Operation& operation) {
  if (posted_by(operation).valid() || awaited_by(operation).valid()) return 0;
  const Cost one = cost(programs, operation);
  return one.flops + flops_per_byte * one.bytes;
}

/// The bytes of a value, with as many rows as are expected where a count bounds them.
double mean_bytes(const ProgramSet& programs, ValueId id) {
  const ValueType type = mean_type(programs, id);
  return static_cast<double>(type.shape.elements()) * static_cast<double>(kernels::size_of(type.dtype));
}

SegmentCosts costs_of(const ProgramSet& programs, ProgramKind kind, const GroupLink& link, std::vector<double>& sent) {
  SegmentCosts costs;
  const auto& program = programs.program(kind);
  double whole = 0;
  for (const Segment& segment : programs.segments(kind)) {
    double work = 0;
    for (std::size_t index = segment.first; index < segment.end; ++index) work += work_of(programs, program[index]);
    costs.compute.push_back(work);
    whole += work;
    for (const ExchangeId id : segment.posts) {
      const ExchangeSpec& exchange = programs.exchange(id);
      const double bytes = std::max(mean_bytes(programs, exchange.send), mean_bytes(programs, exchange.receive)) *
                           static_cast<double>(link.members - 1) / static_cast<double>(link.members);
      sent.push_back(bytes);
      costs.exchange.push_back(link.latency + (link.bytes_per_unit > 0 ? bytes / link.bytes_per_unit : 0));
    }
  }
  const auto equal = 1 / static_cast<double>(costs.compute.size());
  for (double& part : costs.compute) part = whole > 0 ? part / whole : equal;
  return costs;
}

}  // namespace

StageExchanges exchange_costs(const ProgramSet& programs, const GroupLink& link) {
  StageExchanges stage{.shape = training_shape(programs)};
  constexpr std::pair<ActionKind, ProgramKind> kinds[] = {{ActionKind::forward, ProgramKind::forward},
                                                          {ActionKind::input_gradient, ProgramKind::input_gradient},
                                                          {ActionKind::weight_gradient, ProgramKind::weight_gradient},
                                                          {ActionKind::backward, ProgramKind::backward}};
  for (const auto& [kind, program] : kinds) stage.of(kind) = costs_of(programs, program, link, stage.bytes[static_cast<std::size_t>(kind)]);
  return stage;
}

Costs usual_costs(const std::vector<ProgramSet>& stages, int members) {
  Costs costs;
  for (const ProgramSet& programs : stages) {
    const auto work = [&](ProgramKind kind) {
      double sum = 0;
      for (const Operation& operation : programs.program(kind)) sum += work_of(programs, operation);
      return sum;
    };
    costs.stages.push_back(
        {work(ProgramKind::forward), work(ProgramKind::input_gradient), work(ProgramKind::weight_gradient), work(ProgramKind::backward)});
    costs.exchanges.push_back(exchange_costs(programs, {members, 0, 1 / flops_per_sent_byte}));
  }
  return costs;
}

}  // namespace millrace::runtime
