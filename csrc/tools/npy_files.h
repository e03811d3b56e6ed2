#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/error.h"

// NumPy's file format, version 1.0: a magic, a Python dictionary as text, the elements in C order.
namespace tilewright::tools {

struct NpyArray {
  std::string descr;  // "<f4"
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

inline std::string npy_field(const std::string& header, const std::string& key, const std::string& path) {
  const size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) throw UserError(path + ": an npy header without '" + key + "'");
  const size_t start = header.find_first_not_of(" '", at + key.size() + 3);
  const size_t end = header.find_first_of(header[start] == '(' ? ")" : "',}", start);
  if (start == std::string::npos || end == std::string::npos) throw UserError(path + ": malformed npy header");
  return header.substr(start, end - start);
}

inline NpyArray read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("cannot read '" + path + "'");
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string text = buffer.str();
  if (text.size() < 10 || text.compare(0, 6, "\x93NUMPY") != 0) throw UserError("'" + path + "' is not an npy file");
  const bool wide = text[6] >= 2;  // version 2 has a 4-byte length
  size_t length = static_cast<uint8_t>(text[8]) | static_cast<size_t>(static_cast<uint8_t>(text[9])) << 8;
  const size_t start = wide ? 12 : 10;
  if (wide && text.size() >= 12) length |= static_cast<size_t>(static_cast<uint8_t>(text[10])) << 16;
  if (start + length > text.size()) throw UserError(path + ": truncated npy header");
  const std::string header = text.substr(start, length);
  if (npy_field(header, "fortran_order", path) != "False") throw UserError(path + ": an npy file in Fortran order");
  NpyArray array;
  array.descr = npy_field(header, "descr", path);
  std::istringstream shape(npy_field(header, "shape", path).substr(1));
  for (std::string size; std::getline(shape, size, ',');)
    if (size.find_first_not_of(' ') != std::string::npos) array.shape.push_back(std::stoll(size));
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  array.data.assign(bytes + start + length, bytes + text.size());
  return array;
}

inline void write_npy(const std::string& path, const NpyArray& array) {
  std::string header = "{'descr': '" + array.descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : array.shape) header += std::to_string(size) + ",";
  header += "), }";
  header.append(63 - (header.size() + 10) % 64, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  const char prefix[] = {'\x93',
                         'N',
                         'U',
                         'M',
                         'P',
                         'Y',
                         1,
                         0,
                         static_cast<char>(header.size() & 255),
                         static_cast<char>(header.size() >> 8)};
  out.write(prefix, sizeof prefix);
  out << header;
  out.write(reinterpret_cast<const char*>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
  if (!out) throw UserError("cannot write '" + path + "'");
}

}  // namespace tilewright::tools
