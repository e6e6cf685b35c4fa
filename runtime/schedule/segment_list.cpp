#include "runtime/schedule/segment_list.hpp"

#include <map>
#include <tuple>

#include "kernels/base/check.hpp"
#include "runtime/schedule/component.hpp"
#include "runtime/schedule/weave.hpp"

namespace millrace::runtime {
namespace {

class SegmentList {
 public:
  SegmentList(const std::vector<Action>& list, const std::vector<StageShape>& shapes) : list_(list), shapes_(shapes) {}

  std::vector<ListSegment> run() {
    for (std::size_t index = 0; index < list_.size(); ++index) {
      if (list_[index].overlaps_next && index + 1 < list_.size()) {
        append_pair(index);
        ++index;
      } else {
        append_all(strand_of(index, 0));
      }
    }
    return std::move(segments_);
  }

 private:
  /// An action whose segments are being appended.
  struct Strand {
    ListSegment next;
    const std::vector<SegmentShape>* shape = nullptr;
    const SegmentCosts* costs = nullptr;
    std::vector<int> posted = {};  // by exchange of the action: its number in the list
  };

  [[nodiscard]] Strand strand_of(std::size_t index, int strand) const {
    const Action& action = list_[index];
    const StageShape& stage = shapes_.empty() ? whole_ : shapes_.at(action.stage.index());
    const auto& shape = stage.of(action.kind);
    return {{.action = static_cast<int>(index), .segments = static_cast<int>(shape.size()), .strand = strand},
            &shape,
            &stage.usual_of(action.kind)};
  }

  void append_next(Strand& strand) {
    const SegmentShape& shape = strand.shape->at(static_cast<std::size_t>(strand.next.segment));
    MILLRACE_CHECK(shape.awaits < static_cast<int>(strand.posted.size()), ExitCode::internal, schedule_component,
                   "segment {} of {} awaits exchange {} of its action, expected one of the {} that were posted before", strand.next.segment,
                   list_[static_cast<std::size_t>(strand.next.action)], shape.awaits, strand.posted.size());
    strand.next.awaits = shape.awaits < 0 ? -1 : strand.posted[static_cast<std::size_t>(shape.awaits)];
    strand.next.first_exchange = exchanges_;
    strand.next.posts = shape.posts;
    for (int post = 0; post < shape.posts; ++post) strand.posted.push_back(exchanges_++);
    segments_.push_back(strand.next);
    ++strand.next.segment;
  }

  void append_all(Strand strand) {
    while (strand.next.segment < strand.next.segments) append_next(strand);
  }

  void append_pair(std::size_t index) {
    const Action &one = list_[index], &other = list_[index + 1];
    Strand first = strand_of(index, 0), second = strand_of(index + 1, 0);
    if (first.next.segments == 1 && second.next.segments == 1) {  // nothing to weave: they run in order, in one workspace
      append_all(std::move(first));
      return append_all(std::move(second));
    }
    second.next.strand = 1;
    auto& order = orders_[{one.stage, one.kind, other.stage, other.kind}];
    const bool same_program = one.stage == other.stage && one.kind == other.kind;
    if (order.empty()) order = weave({first.shape, *first.costs}, {second.shape, *second.costs}, same_program);
    for (const WovenSegment& next : order) append_next(next.action == 0 ? first : second);
  }

  const std::vector<Action>& list_;
  const std::vector<StageShape>& shapes_;
  const StageShape whole_;
  std::map<std::tuple<StageId, ActionKind, StageId, ActionKind>, std::vector<WovenSegment>> orders_;  // of pairs
  int exchanges_ = 0;
  std::vector<ListSegment> segments_;
};

}  // namespace

std::vector<ListSegment> segment_list(const std::vector<Action>& list, const std::vector<StageShape>& shapes) {
  return SegmentList(list, shapes).run();
}

}  // namespace millrace::runtime
