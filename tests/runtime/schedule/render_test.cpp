#include "runtime/schedule/simulator/render.hpp"

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

std::string draw(const Schedule& schedule, int columns) {
  return render(replay(schedule, std::vector<StageCost>(static_cast<std::size_t>(schedule.placement.stages())), 0), schedule.placement, 1,
                columns);
}

TEST(Render, Gpipe) {
  EXPECT_EQ(draw(gpipe(4, 8), 3),
            "r0|F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====|\n"
            "r1|.  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  |\n"
            "r2|.  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  |\n"
            "r3|.  .  .  F0 F1 F2 F3 F4 F5 F6 F7 B0====B1====B2====B3====B4====B5====B6====B7====.  .  .  .  .  .  |\n");
}

TEST(Render, OneFOneB) {
  EXPECT_EQ(draw(one_f_one_b(4, 8), 3),
            "r0|F0 F1 F2 F3 .  .  .  .  .  .  B0====F4 B1====F5 B2====F6 B3====F7 B4====.  B5====.  B6====.  B7====|\n"
            "r1|.  F0 F1 F2 .  .  .  .  B0====F3 B1====F4 B2====F5 B3====F6 B4====F7 B5====.  B6====.  B7====.  .  |\n"
            "r2|.  .  F0 F1 .  .  B0====F2 B1====F3 B2====F4 B3====F5 B4====F6 B5====F7 B6====.  B7====.  .  .  .  |\n"
            "r3|.  .  .  F0 B0====F1 B1====F2 B2====F3 B3====F4 B4====F5 B5====F6 B6====F7 B7====.  .  .  .  .  .  |\n");
}

TEST(Render, LoopedBreadthFirst) {
  EXPECT_EQ(draw(looped_bfs(4, 2, 8), 2),
            "r0|F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==|\n"
            "r1|. F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . |\n"
            "r2|. . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . |\n"
            "r3|. . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7b0==b1==b2==b3==b4==b5==b6==b7==B0==B1==B2==B3==B4==B5==B6==B7==. . . . . . |\n");
}

TEST(Render, ThreeChunksAreNumbered) {
  const auto picture = draw(looped_bfs(2, 3, 2), 4);
  EXPECT_EQ(picture.substr(0, picture.find('\n')),
            "r0|0F0 0F1 1F0 1F1 2F0 2F1 .   .   .   2B0=====2B1=====1B0=====1B1=====0B0=====0B1=====|")
      << picture;
}

TEST(Render, ZeroBubbleH1) {
  EXPECT_EQ(draw(zb_h1(4, 8), 3),
            "r0|F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7 |\n"
            "r1|.  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7 |\n"
            "r2|.  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7 |\n"
            "r3|.  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7 |\n");
}

}  // namespace
}  // namespace millrace::runtime
