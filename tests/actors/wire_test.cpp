#include "actors/wire.hpp"

#include <gtest/gtest.h>

#include "actors/messages.hpp"

namespace millrace::actors {
namespace {

TEST(Wire, KeepsEveryField) {
  StepReport report{3, 41, {{0, 1.5}, {7, 2.25}}, {0.5, -1.0}, {1, 2, 3, 4, 5}, 99};
  const auto bytes = encode(ToCoordinator{report});
  const auto back = std::get<StepReport>(decode<ToCoordinator>(bytes.data(), bytes.size()));
  EXPECT_EQ(back.rank, 3);
  EXPECT_EQ(back.step, 41);
  ASSERT_EQ(back.squares.size(), 2U);
  EXPECT_EQ(back.squares[1].tensor, 7);
  EXPECT_EQ(back.squares[1].squares, 2.25);
  EXPECT_EQ(back.losses, report.losses);
  EXPECT_EQ(back.times.data, 5);
  EXPECT_EQ(back.resident_bytes, 99U);

  Collected collected{1, true, {"grad.x", {2, 1}, {1.0F, 2.0F}}};
  const auto more = encode(ToCoordinator{collected});
  const auto other = std::get<Collected>(decode<ToCoordinator>(more.data(), more.size()));
  EXPECT_TRUE(other.last);
  EXPECT_EQ(other.tensor.name, "grad.x");
  EXPECT_EQ(other.tensor.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(other.tensor.values, (std::vector<float>{1.0F, 2.0F}));
}

TEST(Wire, RefusesWhatIsCutOrTooLong) {
  auto bytes = encode(ToRank{TakeSnapshot{7, "folder"}});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(static_cast<void>(decode<ToRank>(bytes.data(), size)), Error) << size;
  bytes.push_back(std::byte{0});
  EXPECT_THROW(static_cast<void>(decode<ToRank>(bytes.data(), bytes.size())), Error);
  const std::uint32_t unknown = 1000;
  EXPECT_THROW(static_cast<void>(decode<ToRank>(reinterpret_cast<const std::byte*>(&unknown), sizeof unknown)), Error);
}

}  // namespace
}  // namespace millrace::actors
