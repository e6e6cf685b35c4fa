#include "runtime/program/exchange.hpp"

#include <utility>

#include "runtime/program/operations.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// Which exchange it is, and the rows that are received, which do not follow from the operands' shapes.
struct ExchangeOptions {
  std::int32_t exchange = -1;
  std::int64_t rows = 0;
  std::int16_t count = -1;
  std::int32_t factor = 1;
  bool part = false;  // of an await: a later one yields what is received

  static constexpr auto members() {
    return std::tuple(kernels::member("exchange", &ExchangeOptions::exchange), kernels::member("rows", &ExchangeOptions::rows),
                      kernels::member("count", &ExchangeOptions::count), kernels::member("factor", &ExchangeOptions::factor),
                      kernels::member("part", &ExchangeOptions::part));
  }
};

bool is_table(const ValueType& type) {
  if (type.dtype != kernels::DType::i32 || type.shape.bounded()) return false;
  return (type.shape.rank() == 1 && type.shape[0] >= 2) || (type.shape.rank() == 2 && type.shape[1] == 2);
}

/// Operands of both: send [R, …] and, unless every member gets an equal part, the tables i32 [P·g + 1], or [P, 2], of what is sent and
/// received. The executor calls the transport; a post and an await compute nothing.
class ExchangeRule : public OperationRule {
 public:
  [[nodiscard]] bool is_of_exchange() const override { return true; }
  [[nodiscard]] RowGroups row_groups() const override { return RowGroups::none; }
  Cost cost(std::span<const ValueType>, std::span<const ValueType>, const Attributes&) const override { return {}; }
  KernelRows kernel_rows() const override { return {}; }

 protected:
  void check(std::span<const ValueType> inputs) const {
    const bool tables = inputs.size() == 3 && is_table(inputs[1]) && inputs[1] == inputs[2];
    rules::require((inputs.size() == 1 || tables) && inputs[0].shape.rank() >= 1, name(), inputs,
                   "send [R, ...], or send and two tables i32 [P * g + 1] or [P, 2] of one size");
  }
};

class Post final : public ExchangeRule {
 public:
  std::string_view name() const override { return "post"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes&) const override {
    check(inputs);
    return {};
  }
  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.await_gradient();
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor>, std::span<const kernels::Tensor>, const Attributes&,
           kernels::Scratch) const override {
    fail(ExitCode::internal, "runtime.exchange", "a post was run without a port, expected an executor with one");
  }
};

/// Its result is [rows, …], received; that of a part has none.
class Await final : public ExchangeRule {
 public:
  std::string_view name() const override { return "await"; }

  std::vector<ValueType> infer(std::span<const ValueType> inputs, const Attributes& attributes) const override {
    check(inputs);
    const auto& options = attributes.as<ExchangeOptions>();
    if (options.part) return {};
    ValueType received = inputs[0];
    received.shape.dimension(0) = kernels::Dimension(options.rows, options.count, options.factor);
    return {received};
  }
  void input_gradient(GradientBuilder& builder) const override {
    if (builder.wants(0)) builder.post_gradient();
  }
  void run(const kernels::ExecutionContext&, std::span<const kernels::Tensor>, std::span<const kernels::Tensor>, const Attributes&,
           kernels::Scratch) const override {}
};

ExchangeId exchange_by(const Operation& operation, const OperationRule& rule) {
  return operation.rule == &rule ? ExchangeId{operation.attributes.as<ExchangeOptions>().exchange} : ExchangeId{};
}

std::vector<ValueId> append_await(ProgramBuilder& builder, const PostedExchange& posted, bool part) {
  const ExchangeSpec& exchange = builder.exchange(posted.exchange);
  MILLRACE_CHECK(!exchange.receive.valid(), ExitCode::internal, "runtime.exchange", "'{}' is awaited twice, expected once", exchange.name);
  return builder.append(await_rule(), exchange_operands(exchange), exchange_attributes(posted.exchange, posted.rows, part),
                        posted.name + ".await");
}

}  // namespace

const OperationRule& post_rule() {
  static const Post rule;
  return rule;
}
const OperationRule& await_rule() {
  static const Await rule;
  return rule;
}

Attributes exchange_attributes(ExchangeId exchange, const kernels::Dimension& rows, bool part) {
  return ExchangeOptions{exchange.index, rows.capacity, rows.count, rows.factor, part};
}
bool awaits_part(const Operation& operation) { return awaited_by(operation).valid() && operation.attributes.as<ExchangeOptions>().part; }

std::vector<ValueId> exchange_operands(const ExchangeSpec& exchange) {
  if (!exchange.send_table.valid()) return {exchange.send};
  return {exchange.send, exchange.send_table, exchange.receive_table};
}

ExchangeId posted_by(const Operation& operation) { return exchange_by(operation, post_rule()); }
ExchangeId awaited_by(const Operation& operation) { return exchange_by(operation, await_rule()); }
ExchangeId exchange_of(const Operation& operation) {
  const ExchangeId posted = posted_by(operation);
  return posted.valid() ? posted : awaited_by(operation);
}

PostedExchange post_rows(ProgramBuilder& builder, ValueId send, const ExchangeTables& tables, const kernels::Dimension& rows,
                         std::string_view name) {
  const ExchangeId exchange = builder.add_exchange({.send = send, .send_table = tables.send, .receive_table = tables.receive}, name);
  builder.append(post_rule(), exchange_operands(builder.exchange(exchange)), exchange_attributes(exchange, rows),
                 std::string(name) + ".post");
  return {exchange, rows, std::string(name)};
}

PostedExchange post_parts(ProgramBuilder& builder, ValueId send, std::string_view name) {
  return post_rows(builder, send, {}, builder.type(send).shape.dimension(0), name);
}

ValueId await_rows(ProgramBuilder& builder, const PostedExchange& posted, std::span<const PostedExchange> parts) {
  const ValueId rows = append_await(builder, posted, false)[0];
  builder.exchange(posted.exchange).receive = rows;
  for (const PostedExchange& part : parts) {
    MILLRACE_CHECK(part.rows == posted.rows, ExitCode::internal, "runtime.exchange", "'{}' receives part of {} rows, '{}' of {}", part.name,
                   part.rows.capacity, posted.name, posted.rows.capacity);
    builder.exchange(part.exchange).receive = rows;
  }
  return rows;
}

void await_part(ProgramBuilder& builder, const PostedExchange& posted) { append_await(builder, posted, true); }

RowRange rows_of_member(std::size_t member, std::size_t members, std::int64_t rows, std::span<const std::int32_t> table, bool ranges) {
  if (ranges) return {table[2 * member], table[2 * member + 1]};
  if (table.empty()) {
    const std::int64_t each = rows / static_cast<std::int64_t>(members), part = static_cast<std::int64_t>(member);
    return {each * part, each * (part + 1)};
  }
  const std::size_t groups = (table.size() - 1) / members;
  return {table[member * groups], table[(member + 1) * groups]};
}

ValueId exchange_rows(ProgramBuilder& builder, ValueId send, const ExchangeTables& tables, const kernels::Dimension& rows,
                      std::string_view name) {
  return await_rows(builder, post_rows(builder, send, tables, rows, name));
}

}  // namespace millrace::runtime
