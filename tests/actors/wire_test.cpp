#include "actors/messages/wire.hpp"

#include <gtest/gtest.h>

#include "actors/messages/messages.hpp"

namespace millrace::actors {
namespace {

template <class T>
T decoded(std::span<const std::byte> bytes) {
  T message;
  decode(bytes, message);
  return message;
}

TEST(Wire, KeepsEveryField) {
  StepReport report{3,
                    41,
                    {{0, 1.5}, {7, 2.25}},
                    {{5, {"moe_lb_loss", 0.01, runtime::Denominator::microbatches, 12, true}, {0.5, -1.0}}},
                    {1, 2, 3, 4, 5, 6},
                    7,
                    8,
                    {0.5, 99},
                    {{5, 2, "expert_load", "layers.2", 3, {0, 7, 9}}}};
  const auto bytes = encode(ToCoordinator{report});
  auto back = std::get<StepReport>(decoded<ToCoordinator>(bytes));
  EXPECT_EQ(back.rank, 3);
  EXPECT_EQ(back.step, 41);
  ASSERT_EQ(back.squares.size(), 2U);
  EXPECT_EQ(back.squares[1].order, 7);
  EXPECT_EQ(back.squares[1].value, 2.25);
  ASSERT_EQ(back.losses.size(), 1U);
  EXPECT_EQ(back.losses[0].stage, 5);
  EXPECT_EQ(back.losses[0].sums, report.losses[0].sums);
  EXPECT_EQ(back.losses[0].term.tie(), report.losses[0].term.tie());
  ASSERT_EQ(back.observed.size(), 1U);
  EXPECT_EQ(back.observed[0].tie(), report.observed[0].tie());
  EXPECT_EQ(back.times.exchange, 5);
  EXPECT_EQ(back.times.data, 6);
  EXPECT_EQ(back.metrics, (std::vector<double>{0.5, 99}));
  EXPECT_EQ(back.device_used, 7U);
  EXPECT_EQ(back.device_total, 8U);

  Collected collected{1, true, {"grad.x", {2, 1}, {1.0F, 2.0F}}};
  const auto more = encode(ToCoordinator{collected});
  const auto other = std::get<Collected>(decoded<ToCoordinator>(more));
  EXPECT_TRUE(other.last);
  EXPECT_EQ(other.tensor.name, "grad.x");
  EXPECT_EQ(other.tensor.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(other.tensor.values, (std::vector<float>{1.0F, 2.0F}));
}

TEST(Wire, RefusesWhatIsCutOrTooLong) {
  const auto encoded = encode(ToRank{TakeSnapshot{7, "folder"}});
  std::vector<std::byte> bytes(encoded.begin(), encoded.end());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decoded<ToRank>(std::span(bytes).first(size)), Error) << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THROW(decoded<ToRank>(bytes), Error);
  const std::uint32_t unknown = 1000;
  EXPECT_THROW(decoded<ToRank>(std::as_bytes(std::span(&unknown, 1))), Error);
}

TEST(Wire, AMessageMayBeUsedAgain) {
  ToCoordinator message;
  decode(encode(ToCoordinator{StepReport{0, 1, {{0, 1.0}, {1, 2.0}}, {{0, {"lm_loss"}, {3.0}}}, {}}}), message);
  const auto* room = std::get<StepReport>(message).squares.data();
  decode(encode(ToCoordinator{StepReport{1, 2, {{5, 6.0}}, {}, {}}}), message);
  const auto& report = std::get<StepReport>(message);
  EXPECT_EQ(report.squares.data(), room);
  ASSERT_EQ(report.squares.size(), 1U);
  EXPECT_EQ(report.squares[0].order, 5);
  EXPECT_TRUE(report.losses.empty());
  decode(encode(ToCoordinator{RankReady{3, 4}}), message);
  EXPECT_EQ(std::get<RankReady>(message).planned_bytes, 4U);
}

TEST(Wire, ADecoderKeepsTheRoomOfEachKind) {
  Decoder<ToCoordinator> decoder;
  const auto* room =
      std::get<StepReport>(decoder(encode(ToCoordinator{StepReport{0, 1, {{0, 1.0}, {1, 2.0}}, {{0, {"lm_loss"}, {3.0}}}, {}}})))
          .squares.data();
  EXPECT_EQ(std::get<RankReady>(decoder(encode(ToCoordinator{RankReady{3, 4}}))).planned_bytes, 4U);
  const auto& report = std::get<StepReport>(decoder(encode(ToCoordinator{StepReport{1, 2, {{5, 6.0}}, {}, {}}})));
  EXPECT_EQ(report.squares.data(), room);
  EXPECT_EQ(report.rank, 1);
  const std::uint32_t unknown = 1000;
  EXPECT_THROW(static_cast<void>(decoder(std::as_bytes(std::span(&unknown, 1)))), Error);
}

}  // namespace
}  // namespace millrace::actors
