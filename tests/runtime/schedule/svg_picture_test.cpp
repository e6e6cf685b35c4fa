#include "runtime/schedule/simulator/svg_picture.hpp"

#include <gtest/gtest.h>

#include "tests/runtime/schedule/schedule_support.hpp"
#include "tests/support/xml.hpp"

namespace millrace::runtime {
namespace {

std::string picture_of(const Schedule& schedule, const std::string& note = "") {
  Costs costs;
  costs.stages = uniform_costs(schedule.placement, 1, 1, 1);
  return svg_picture(schedule, simulate(schedule, costs), note);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Xml, TheCheckFindsFaults) {
  using tests::xml_fault;
  EXPECT_EQ(xml_fault("<a b=\"1\"><c/>x &amp; y</a>\n"), "");
  for (const char* bad : {"<a>", "<a></b>", "<a/><b/>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "<a>&</a>", "<a>&nbsp;</a>", "<a b=\"<\"/>",
                          "x<a/>", "<a", "", "<a/></a>", "< a/>"})
    EXPECT_NE(xml_fault(bad), "") << bad;
}

TEST(SvgPicture, IsXmlWithEveryActionOnce) {
  for (const ScheduleRequest& request : one_of_each(4, 8)) {
    SCOPED_TRACE(name_of(request));
    const Schedule schedule = make_schedule(request);
    const std::string picture = picture_of(schedule);
    EXPECT_EQ(tests::xml_fault(picture), "");
    int actions = 0;
    for (const auto& list : schedule.ranks) {
      for (const Action& action : list) {
        EXPECT_EQ(count(picture, "<title>" + to_string(action) + ": "), 1) << to_string(action);
        ++actions;
      }
    }
    EXPECT_EQ(count(picture, "<title>"), actions);
    EXPECT_EQ(count(picture, ">rank 3<"), 2);  // once for its row, once for its memory
  }
}

TEST(SvgPicture, BoxesLieAtTheirTimes) {
  const std::string picture = picture_of(one_f_one_b(2, 2));  // 9 units; the minimum width is 520 pixels
  const auto box = [](double begin, double end) {
    const double scale = 520.0 / 9;
    return fmt::format("x=\"{}\" y=\"0\" width=\"{}\"", std::round(begin * scale * 100) / 100,
                       std::round((end - begin) * scale * 100) / 100);
  };
  expect_contains(picture, "<title>1F0: 1 to 2, needs 0F0 of rank 0</title><rect class=\"F0\" " + box(1, 2));
  expect_contains(picture, "<title>1B0: 2 to 4</title><rect class=\"B0\" " + box(2, 4));
  expect_contains(picture, "<title>0B1: 7 to 9, needs 1B1 of rank 1</title><rect class=\"B0\" " + box(7, 9));
  expect_contains(picture, "makespan 9, idle 33.3 % · span 9, idle 33.3 % · peak 2 microbatches");
}

/// A colour in an attribute would stay the same there.
TEST(SvgPicture, FollowsADarkScheme) {
  const std::string picture = picture_of(dualpipe_v(2, 4));
  expect_contains(picture, "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}");
  EXPECT_EQ(count(picture, "=\"#"), 0);
}

TEST(SvgPicture, HalvesOfAPairShareTheirTime) {
  const std::string picture = picture_of(dualpipe_v(2, 4));
  const auto box_of = [&](const std::string& action) {
    const auto begin = picture.find("<rect", picture.find("<title>" + action + ":"));
    return picture.substr(begin, picture.find("/>", begin) - begin);
  };
  const std::string first = box_of("0F3"), second = box_of("3B1");
  const auto x = [](const std::string& box) { return box.substr(box.find(" x="), box.find(" y=") - box.find(" x=")); };
  EXPECT_EQ(x(first), x(second));
  expect_contains(first, "y=\"0\"");
  expect_contains(second, "y=\"13\"");
  expect_contains(second, "class=\"B1\"");
}

TEST(SvgPicture, NamesAreEscapedAndSizesSensible) {
  Schedule schedule = gpipe(2, 2);
  schedule.name = "a<b>&\"c\".csv";
  const std::string picture = picture_of(schedule, "x < y");
  EXPECT_EQ(tests::xml_fault(picture), "");
  expect_contains(picture, "a&lt;b&gt;&amp;&quot;c&quot;.csv: 2 ranks");
  const std::string large = picture_of(make_schedule({"interleaved", 16, 2, 64, {}}));
  EXPECT_EQ(tests::xml_fault(large), "");
  EXPECT_LT(std::stod(large.substr(large.find("width=\"") + 7)), 4000);
  Schedule empty = gpipe(1, 1);
  empty.ranks[0].clear();
  EXPECT_EQ(tests::xml_fault(picture_of(empty)), "");
}

TEST(SvgPicture, ForwardOnly) { EXPECT_EQ(tests::xml_fault(picture_of(forward_only(Placement::v_shape(2), 3))), ""); }

}  // namespace
}  // namespace millrace::runtime
