# cmake -DPAGE=x.md -DPROGRAM=y.cpp -P check_page.cmake: fails unless the page shows the program, whole and unchanged.
file(READ ${PAGE} page)
file(READ ${PROGRAM} program)
string(FIND "${page}" "```cpp\n${program}```\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${PAGE} must show ${PROGRAM} unchanged, as a block that begins with ```cpp; copy the program there")
endif()
