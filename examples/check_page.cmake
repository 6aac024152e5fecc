# cmake -DPAGE=x.md -DLANGUAGE=cpp -DFILE=y.cpp -P check_page.cmake: fails unless the page shows the file, whole and unchanged.
file(READ ${PAGE} page)
file(READ ${FILE} text)
string(FIND "${page}" "```${LANGUAGE}\n${text}```\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${PAGE} must show ${FILE} unchanged, as a block that begins with ```${LANGUAGE}; copy the file there")
endif()
