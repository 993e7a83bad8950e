// SPDX-License-Identifier: Apache-2.0
//
// Tests of OutputFile: whole files or none.
#include "base/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace skein {
namespace {

std::string Folder() {
  const std::string folder = ::testing::TempDir() + "/output_file_test_" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// If this failed, an interrupted command would leave half a model that looks like a whole one.
TEST(OutputFile, IsThereWholeOrNotAtAll) {
  const std::string folder = Folder(), path = folder + "/out";
  {
    auto file = OutputFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("left").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.ok());
  const std::string large(200000, 'x');
  ASSERT_TRUE(file->Write("ab").ok());
  ASSERT_TRUE(file->Write(large).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(std::filesystem::file_size(path), large.size() + 2);
  std::filesystem::remove_all(folder);
}

// If this failed, a full disk would look like success.
TEST(OutputFile, AFullDiskIsAnError) {
  auto file = OutputFile::Create("/dev/full");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write("text").ok());
  const Status status = file->Commit();
  EXPECT_EQ(status.code(), Code::kMissing);
  EXPECT_NE(status.message().find("/dev/full"), std::string::npos);
  EXPECT_EQ(OutputFile::Create("/nowhere/at/all").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace skein
