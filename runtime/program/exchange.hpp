#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/tensor.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

struct Operation;

/// Index into ProgramSet::exchanges.
struct ExchangeId {
  std::int32_t index = -1;
  [[nodiscard]] bool valid() const noexcept { return index >= 0; }
  friend bool operator==(ExchangeId, ExchangeId) = default;
};

/// A transfer among the members of a group of ranks inside of an action: each member sends every member, itself included, some rows of
/// `send`, and receives some of every member in `receive`. The operation `post` begins it once `send` is written, `await` is where the rows
/// are needed; operations that do not need them may stand between the two. A program is cut into segments at its awaits. Both have `send`
/// and the tables as operands, which keeps them until the await; `receive` is the result of the await, and its memory is in use from the
/// post on.
///
/// Tables say which rows: rows [table[p·g], table[(p + 1)·g]) of `send` go to member p, for a table i32 [P·g + 1] of P members with g
/// groups each, such as where the rows of each expert begin; those of member p arrive at rows [table[p·g], table[(p + 1)·g]) of `receive`,
/// for another table. The tables must be written before the post. Without tables every member gets and sends an equal part: the exchange of
/// counts, by which members learn the tables of the exchanges that follow.
///
/// Where rows are exchanged in rounds (kernels/base/exchange_round_options.hpp), tables are *ranges* i32 [P, 2]: member p has rows
/// [table[p, 0], table[p, 1]). With −1 in all of them no member needs the round, and nothing is posted. Several exchanges may then receive
/// parts of one value; the await of the last one yields it.
struct ExchangeSpec {
  ValueId send = {}, receive = {};              // [R, …] each; `receive` may be bounded by a count
  ValueId send_table = {}, receive_table = {};  // both or none
  int layer = -1;
  std::string name = {};  // "layers.3.mlp.dispatch", "layers.3.mlp.combine.dx"
};

/// The exchange that an operation posts or awaits; invalid if it does not.
[[nodiscard]] ExchangeId posted_by(const Operation& operation);
[[nodiscard]] ExchangeId awaited_by(const Operation& operation);
/// That of either.
[[nodiscard]] ExchangeId exchange_of(const Operation& operation);

/// What an executor hands to the transport at a post. Tensors and tables lie in the stage's memory and stay as they are until the await;
/// the counts that bound an axis are resolved. The references are valid during the call.
struct ExchangePost {
  ExchangeId exchange;
  const kernels::Tensor& send;
  const kernels::Tensor& receive;
  std::span<const std::int32_t> send_table, receive_table;  // empty: equal parts
  bool ranges = false;                                      // tables are ranges
  /// No member needs it: its rows are in at once.
  [[nodiscard]] bool unused() const noexcept { return ranges && send_table.front() < 0; }
};

/// Whether a table of this shape is one of ranges.
[[nodiscard]] inline bool has_ranges(const kernels::Shape& table) { return table.rank() == 2; }

struct RowRange {
  std::int64_t first = 0, end = 0;
};
/// The rows of `member`, one of `members`, among `rows` rows: by the table of a post, which are `ranges` or not; an equal part without one.
[[nodiscard]] RowRange rows_of_member(std::size_t member, std::size_t members, std::int64_t rows, std::span<const std::int32_t> table,
                                      bool ranges);

/// Where executors post exchanges. Called on the rank's compute worker; neither blocks nor allocates. The segment that begins with the
/// await runs once all rows of the exchange are in and those that were sent have left.
class ExchangePort {
 public:
  virtual ~ExchangePort() = default;
  virtual void post(const ExchangePost& post) = 0;
};

/// The operations [first, end) of a program. `awaits`: the exchange whose rows must be in before it begins; the first segment has none.
struct Segment {
  std::size_t first = 0, end = 0;
  ExchangeId awaits = {};
  std::vector<ExchangeId> posts = {};  // in order
};

/// The segments of a program, at least one: an await begins a segment.
[[nodiscard]] std::vector<Segment> segments_of(const std::vector<Operation>& program);

}  // namespace millrace::runtime
