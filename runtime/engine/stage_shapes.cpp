#include "runtime/engine/stage_shapes.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

/// The exchanges of a program are numbered in the order in which it posts them, whatever their ids are.
std::vector<SegmentShape> shape_of(const ProgramSet& programs, ProgramKind kind) {
  std::vector<SegmentShape> shapes;
  std::vector<ExchangeId> posted;
  for (const Segment& segment : programs.segments(kind)) {
    SegmentShape shape;
    if (segment.awaits.valid()) shape.awaits = static_cast<int>(std::ranges::find(posted, segment.awaits) - posted.begin());
    shape.posts = static_cast<int>(segment.posts.size());
    posted.insert(posted.end(), segment.posts.begin(), segment.posts.end());
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace

StageShape training_shape(const ProgramSet& programs) {
  StageShape shape;
  shape.of(ActionKind::forward) = shape_of(programs, ProgramKind::forward);
  shape.of(ActionKind::input_gradient) = shape_of(programs, ProgramKind::input_gradient);
  shape.of(ActionKind::weight_gradient) = shape_of(programs, ProgramKind::weight_gradient);
  shape.of(ActionKind::backward) = shape_of(programs, ProgramKind::backward);
  return shape;
}

StageShape forward_only_shape(const ProgramSet& programs) {
  StageShape shape;
  shape.of(ActionKind::forward) = shape_of(programs, ProgramKind::evaluate);
  return shape;
}

}  // namespace millrace::runtime
